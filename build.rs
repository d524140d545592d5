//! Links the addon against symbols that Node provides at load time.

fn main() {
    napi_build::setup();
}
