// Of the check of the documentation: what rustdoc is started with.
import { describe, expect, it } from "vitest";
import { commands } from "../../.ci/doc.mjs";

const artifact = (name: string, kind: string, filenames: string[], features: string[] = []) => ({
  reason: "compiler-artifact",
  package_id: `${name} 1.0.0`,
  target: { name, kind: [kind], src_path: `/src/${name}/lib.rs`, edition: "2024" },
  features,
  filenames,
});
const normal = (name: string, pkg = name) => ({ name, pkg: `${pkg} 1.0.0`, dep_kinds: [{ kind: null }] });
const known = (name: string) => ({
  id: `${name} 1.0.0`,
  name,
  version: "1.0.0",
  manifest_path: `/src/${name}/Cargo.toml`,
});

describe("what rustdoc is started with", () => {
  it("is what the rooms were compiled with, each crate as this machine's programs have it", () => {
    const metadata = {
      packages: ["room", "the-addon", "memchr"].map(known),
      workspace_members: ["room 1.0.0", "the-addon 1.0.0"],
      resolve: {
        nodes: [
          {
            id: "room 1.0.0",
            deps: [normal("memchr"), normal("derive"), { ...normal("proptest"), dep_kinds: [{ kind: "dev" }] }],
          },
          { id: "the-addon 1.0.0", deps: [normal("room"), normal("windows_only")] },
        ],
      },
    };
    const artifacts = [
      artifact("memchr", "lib", ["/t/debug/deps/libmemchr-0.rlib", "/t/debug/deps/libmemchr-0.rmeta"]),
      artifact("derive", "proc-macro", ["/t/debug/deps/libderive-0.so"]),
      artifact("memchr", "lib", ["/t/x64/debug/deps/libmemchr-1.rlib", "/t/x64/debug/deps/libmemchr-1.rmeta"]),
      artifact("room", "lib", ["/t/x64/debug/libroom.rlib", "/t/x64/debug/deps/libroom-1.rmeta"], ["test"]),
      artifact("the-addon", "cdylib", ["/t/x64/debug/libthe_addon.so", "/t/x64/debug/libthe_addon.rlib"]),
    ];
    const common = (crate: string) =>
      `--crate-name ${crate} --crate-type lib --edition 2024 -D warnings --out-dir /t/x64/doc`;
    const folders = "-L dependency=/t/x64/debug/deps -L dependency=/t/debug/deps";
    const env = (name: string) => ({
      CARGO_MANIFEST_DIR: `/src/${name}`,
      CARGO_PKG_NAME: name,
      CARGO_PKG_VERSION: "1.0.0",
    });
    const made = commands(metadata, artifacts).map(({ args, ...rest }) => ({ ...rest, args: args.join(" ") }));
    expect(made).toEqual([
      {
        name: "room",
        env: env("room"),
        args: `${common("room")} --cfg feature="test" ${folders} --extern memchr=/t/x64/debug/deps/libmemchr-1.rmeta --extern derive=/t/debug/deps/libderive-0.so /src/room/lib.rs`,
      },
      {
        name: "the-addon",
        env: env("the-addon"),
        args: `${common("the_addon")} ${folders} --extern room=/t/x64/debug/deps/libroom-1.rmeta /src/the-addon/lib.rs`,
      },
    ]);
  });
});
