use super::*;
use forebay_model::Bytes;
use forebay_wire::control::names::FileId;

/// The page on which programs rely.
const PAGE: &str = include_str!("../../../../../docs/cli-json.md");

#[test]
fn each_finding_is_told_by_a_word_of_its_own_that_the_page_has_and_with_the_components_that_it_is_about() {
    let components = || vec![(3, TargetId(7))];
    let all = [
        What::Lacks { components: components(), is_enough: false },
        What::Unwritten { components: components() },
        What::Nameless,
        What::Unknown,
        What::Newer { size: Bytes(5) },
        What::Dangling,
    ];
    let mut words = std::collections::BTreeSet::new();
    for what in all {
        let finding = Finding { file: FileId(9), path: "/x".into(), what };
        let (told, json) = (in_words(&finding), finding_as_json(&finding));
        let word = json["found"].as_str().expect("a word").to_string();
        assert!(PAGE.contains(&format!("`{word}`")), "{word} is not in the page");
        assert!(told.starts_with("/x: "), "{told}");
        let has_components = matches!(finding.what, What::Lacks { .. } | What::Unwritten { .. });
        assert_eq!(has_components, json["components"][0]["component"] == 3, "{json}");
        assert_eq!(
            has_components,
            told.contains("3 on target") && told.contains("restore it from elsewhere"),
            "{told}"
        );
        assert!(words.insert(word), "{json}");
    }
}
