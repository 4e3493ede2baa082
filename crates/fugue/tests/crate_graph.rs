//! Compares the crate table of ARCHITECTURE.md with the dependencies that cargo reports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// Direct dependencies that a crate must not have: crates without I/O stay so.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("fugue-term", &["tokio", "rustix", "libc", "mio"]),
    ("fugue-api", &["tokio", "rustix", "libc", "rusqlite"]),
    ("fugue-core", &["tokio", "rustix", "libc", "rusqlite"]),
    ("fugue-holder", &["tokio", "serde_json", "rusqlite"]),
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The rows of the crate table: each crate, and the workspace crates that it may depend on.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let page =
        fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `fugue"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(!rows.is_empty(), "ARCHITECTURE.md has the crate table");
    let name = |cell: &str| cell.trim_matches('`').to_owned();
    let names: BTreeSet<String> = rows.iter().map(|row| name(row[0])).collect();
    rows.iter()
        .map(|row| {
            assert_eq!(
                row.len(),
                3,
                "a row has a crate, a sentence and the allowed crates: {row:?}"
            );
            let may = match row[2] {
                "all" => names
                    .iter()
                    .filter(|name| *name != "fugue-testkit")
                    .cloned()
                    .collect(),
                "–" | "-" | "" => BTreeSet::new(),
                some => some
                    .split(',')
                    .map(|word| {
                        format!(
                            "fugue-{}",
                            word.trim().trim_matches('`').trim_start_matches("fugue-")
                        )
                    })
                    .collect(),
            };
            (name(row[0]), may)
        })
        .collect()
}

fn crates() -> Vec<Package> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .other_options(vec!["--offline".to_owned()])
        .exec()
        .expect("cargo metadata");
    metadata.packages
}

fn uses(package: &Package, kinds: &[DependencyKind]) -> BTreeSet<String> {
    package
        .dependencies
        .iter()
        .filter(|dependency| kinds.contains(&dependency.kind))
        .map(|dependency| dependency.name.clone())
        .collect()
}

#[test]
fn the_table_lists_exactly_the_crates_of_the_workspace() {
    let built: BTreeSet<String> = crates()
        .iter()
        .map(|package| package.name.to_string())
        .collect();
    let planned: BTreeSet<String> = table().into_keys().collect();
    assert_eq!(built, planned);
}

#[test]
fn no_crate_has_a_dependency_that_the_table_does_not_allow() {
    let table = table();
    for package in crates() {
        let may = &table[package.name.as_str()];
        let ours = uses(&package, &[DependencyKind::Normal, DependencyKind::Build])
            .into_iter()
            .filter(|name| name == "fugue" || name.starts_with("fugue-"))
            .collect::<BTreeSet<_>>();
        let too_many: Vec<&String> = ours.difference(may).collect();
        assert!(
            too_many.is_empty(),
            "{} uses {too_many:?}; the table allows {may:?}",
            package.name
        );
    }
}

#[test]
fn the_testkit_is_a_dev_dependency_only() {
    for package in crates() {
        let normal = uses(&package, &[DependencyKind::Normal, DependencyKind::Build]);
        assert!(!normal.contains("fugue-testkit"), "{}", package.name);
    }
}

#[test]
fn no_crate_has_a_forbidden_dependency() {
    let crates = crates();
    for (name, forbidden) in FORBIDDEN {
        let package = crates.iter().find(|package| package.name.as_str() == *name);
        let package = package.unwrap_or_else(|| panic!("no crate `{name}`"));
        let normal = uses(package, &[DependencyKind::Normal]);
        for thing in *forbidden {
            assert!(!normal.contains(*thing), "{name} depends on {thing}");
        }
    }
}

#[test]
fn every_crate_has_the_lints_licence_and_edition_of_the_workspace() {
    for package in crates() {
        let manifest = fs::read_to_string(&package.manifest_path).expect("a manifest");
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{} has lints of its own",
            package.name
        );
        assert_eq!(
            package.license.as_deref(),
            Some("MIT OR Apache-2.0"),
            "{}",
            package.name
        );
        assert_eq!(package.edition.as_str(), "2024", "{}", package.name);
    }
}
