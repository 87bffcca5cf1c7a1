use super::*;

const ALL: Machine = Machine { apt: true, root: true, sudo: true };

#[test]
fn nothing_is_installed_when_nothing_is_missing() {
    assert_eq!(plan(&[], Machine { apt: false, root: false, sudo: false }), Plan::Nothing);
}

#[test]
fn root_installs_and_others_ask_sudo() {
    let names: Vec<&str> = PACKAGES.iter().map(|package| package.debian).collect();
    assert_eq!(plan(PACKAGES, ALL), Plan::Install(&[], names.clone()));
    assert_eq!(plan(PACKAGES, Machine { root: false, ..ALL }), Plan::Install(&["sudo"], names));
}

#[test]
fn who_cannot_install_is_told_the_command() {
    let Plan::Impossible(reason) = plan(&PACKAGES[..1], Machine { root: false, sudo: false, ..ALL }) else {
        panic!("an ordinary user cannot install");
    };
    assert!(reason.contains("sudo apt-get install tshark"), "{reason}");
    let Plan::Impossible(reason) = plan(&PACKAGES[..1], Machine { apt: false, ..ALL }) else {
        panic!("without apt nothing can be installed");
    };
    assert!(reason.contains("no apt-get"), "{reason}");
}

#[test]
fn programs_are_found_where_they_are() {
    assert!(find("sh").is_some());
    assert!(find("no-such-program-anywhere").is_none());
}
