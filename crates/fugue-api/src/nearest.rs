//! The name that was probably meant.

use strsim::damerau_levenshtein;

/// The choice that is nearest to a misspelt name. `None` if none is similar. A dotted name (`watch.tail_lines`) is also
/// compared without its table.
pub fn nearest<'a>(given: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let given = given.to_lowercase().replace('-', "_");
    let given_last = given.rsplit('.').next().unwrap_or(&given);
    let distance = |choice: &'a str| {
        damerau_levenshtein(&given, choice).min(damerau_levenshtein(given_last, last(choice)))
    };
    // More than a third of the letters wrong is another word.
    let most = given_last.chars().count().div_ceil(3);
    let found = choices
        .into_iter()
        .map(|choice| (distance(choice), choice))
        .filter(|(distance, _)| *distance <= most);
    found
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, choice)| choice)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_finds_its_name_and_another_word_finds_none() {
        let choices = ["keep_lines", "log_cap_bytes", "watch.tail_lines"];
        for (given, wanted) in [
            ("keep_linez", Some("keep_lines")),
            ("kepe_lines", Some("keep_lines")),
            ("Keep-Lines", Some("keep_lines")),
            ("tail_lines", Some("watch.tail_lines")),
            ("watch.tail_line", Some("watch.tail_lines")),
            ("log_bytes", None),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, choices), wanted, "{given}");
        }
    }
}
