use super::*;
use dfp_provider::command;

fn of(options: &str, vars: &[(&str, &str)]) -> SearchFolders {
    let provider = dfp_provider::find("claude").unwrap();
    let options = Options::parse(provider, options).unwrap();
    let line = command::bare(provider, &options).unwrap();
    search_folders(provider, &options, &line, |name| {
        let found = vars.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| OsString::from(value))
    })
}

#[cfg(unix)]
#[test]
fn places_are_made_of_the_variables_of_the_process() {
    let folders = of(
        "{}",
        &[("HOME", "/home/me"), ("NVM_DIR", "/opt/nvm"), ("FNM_DIR", "relative")],
    )
    .programs;
    let begins: Vec<&str> = folders.iter().take(3).map(|folder| folder.to_str().unwrap()).collect();
    assert_eq!(
        begins,
        [
            "/home/me/.local/bin",
            "/home/me/.claude/local",
            "/home/me/.claude/local/node_modules/.bin"
        ]
    );
    for folder in ["/opt/nvm/versions/node/*/bin", "/opt/homebrew/bin", "/home/me/.bun/bin"] {
        assert!(folders.contains(&PathBuf::from(folder)), "{folder}: {folders:?}");
    }
    assert!(
        !folders
            .iter()
            .any(|folder| folder.to_string_lossy().contains("relative"))
    );
    let without = of("{}", &[]).programs;
    let home = std::env::home_dir().unwrap();
    assert_eq!(without.first(), Some(&home.join(".local/bin")));
}

#[cfg(unix)]
#[test]
fn npms_prefix_is_read() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path().to_str().unwrap();
    std::fs::write(
        home.path().join(".npmrc"),
        "//registry/:_authToken=x\nprefix = ~/packages\n",
    )
    .unwrap();
    assert!(
        of("{}", &[("HOME", at)])
            .programs
            .contains(&home.path().join("packages/bin"))
    );
    let set = of("{}", &[("HOME", at), ("npm_config_prefix", "/opt/npm")]).programs;
    assert!(set.contains(&PathBuf::from("/opt/npm/bin")));
    assert!(!set.contains(&home.path().join("packages/bin")));
}

#[test]
fn the_path_alone_is_searched_for_a_name_of_ones_own() {
    assert_eq!(of(r#"{"cliSearch": "path"}"#, &[]), SearchFolders::default());
    let own = of(r#"{"cliPath": "my-claude"}"#, &[]);
    assert_eq!(own.programs, Vec::<PathBuf>::new());
    assert!(!own.interpreters.is_empty());
}

#[cfg(unix)]
#[test]
fn a_working_folder_is_one_that_does_not_hold_the_home() {
    let line = |cwd: &Path| {
        let provider = dfp_provider::find("claude").unwrap();
        let options = Options::parse(provider, &serde_json::json!({ "cwd": cwd }).to_string()).unwrap();
        command::bare(provider, &options).unwrap()
    };
    let root = tempfile::tempdir().unwrap();
    let (home, work) = (root.path().join("home"), root.path().join("work"));
    std::fs::create_dir_all(&home).unwrap();
    std::fs::create_dir_all(&work).unwrap();
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    let real = |folder: &Path| folder.canonicalize().unwrap();
    assert_eq!(working_folders(&line(&work), Some(&home)), [here.clone(), real(&work)]);
    for folder in [root.path(), home.as_path(), Path::new("/")] {
        assert_eq!(
            working_folders(&line(folder), Some(&home)),
            std::slice::from_ref(&here),
            "{folder:?}"
        );
    }
}
