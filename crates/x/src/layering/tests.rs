use super::*;

fn findings(name: &str, manifest: &str) -> Vec<String> {
    let path = format!("crates/{name}/Cargo.toml");
    let tree = Tree::of(&[(&path, manifest), ("Cargo.lock", "")]);
    layering(&tree).iter().map(ToString::to_string).collect()
}

#[test]
fn an_arrow_that_points_down_is_fine() {
    let manifest =
        "[package]\nname = \"forebay-wire\"\n[dependencies]\nforebay-model.workspace = true\nserde = \"1\"\n";
    assert!(findings("wire", manifest).is_empty());
}

#[test]
fn an_arrow_that_points_up_is_found_however_it_is_written() {
    for line in [
        "[dependencies]\nforebay-target.workspace = true",
        "[dev-dependencies]\nforebay-target = { path = \"../target\" }",
        "[build-dependencies]\n\"forebay-target\" = { workspace = true }",
        "[target.'cfg(unix)'.dependencies]\nforebay-target = \"0.1\"",
        "[dependencies]\nstore = { package = \"forebay-target\", path = \"../target\" }",
        "\n[dependencies.forebay-target]",
    ] {
        let found = findings("client", line);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with("crates/client/Cargo.toml:2: layering: client uses target; "), "{}", found[0]);
    }
}

#[test]
fn what_looks_like_a_dependency_and_is_none_is_left_alone() {
    let manifest = "[package]\nname = \"forebay-target\"\n# forebay-sim\n[features]\nforebay-sim = []\n";
    assert!(findings("model", manifest).is_empty());
}

#[test]
fn a_crate_without_a_layer_is_found() {
    assert!(findings("attic", "[package]\n")[0].contains("no place among the layers"));
}

#[test]
fn the_table_is_bottom_up_and_nobody_uses_the_developers_verb() {
    for (index, (name, allowed)) in ARROWS.iter().enumerate() {
        for used in *allowed {
            let place = ARROWS.iter().position(|(known, _)| known == used);
            assert!(place.is_some_and(|place| place < index), "{name} uses {used}");
            assert_ne!(*used, "x");
        }
    }
}

#[test]
fn a_missing_lock_file_is_found() {
    let found = layering(&Tree::of(&[("crates/x/Cargo.toml", "")]));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, "Cargo.lock");
}
