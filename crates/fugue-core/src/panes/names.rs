use fugue_api::{Error, ErrorKind, PaneId};

use crate::PaneRecord;

/// Which pane a caller means: an id, a live pane's name, an ended pane's name, or the start of an id that fits one.
pub fn resolve<'a>(
    said: &str,
    panes: impl Iterator<Item = &'a PaneRecord> + Clone,
) -> Result<PaneId, Error> {
    if let Ok(id) = said.parse::<PaneId>()
        && panes.clone().any(|pane| pane.id == id)
    {
        return Ok(id);
    }
    let live = panes.clone().filter(|pane| pane.ended.is_none());
    let ended = panes.clone().filter(|pane| pane.ended.is_some());
    // A live pane hides ended ones of the same name: people reuse names.
    for group in [
        live.clone()
            .filter(|pane| pane.name == said)
            .collect::<Vec<_>>(),
        ended.filter(|pane| pane.name == said).collect(),
        panes
            .clone()
            .filter(|pane| is_start_of(said, pane.id))
            .collect(),
    ] {
        match group.as_slice() {
            [] => {}
            [one] => return Ok(one.id),
            several => return Err(ambiguous(said, several)),
        }
    }
    let open = live.count();
    let panes = if open == 1 {
        "1 pane is open".to_owned()
    } else {
        format!("{open} panes are open")
    };
    Err(
        Error::new(ErrorKind::NotFound, format!("no pane `{said}`; {panes}"))
            .hint("`fugue ls` lists them"),
    )
}

fn is_start_of(said: &str, id: PaneId) -> bool {
    said.len() > 1 && said.parse::<PaneId>().is_ok() && id.to_string().starts_with(said)
}

fn ambiguous(said: &str, fitting: &[&PaneRecord]) -> Error {
    // Enough to explain the error; `fugue ls` lists all panes.
    let shown = 8;
    let mut list: Vec<String> = fitting
        .iter()
        .take(shown)
        .map(|pane| format!("{} ({}, in {})", pane.id, pane.name, pane.session))
        .collect();
    if fitting.len() > shown {
        list.push(format!("and {} more", fitting.len() - shown));
    }
    Error::new(
        ErrorKind::Ambiguous,
        format!("`{said}` fits {} panes: {}", fitting.len(), list.join(", ")),
    )
    .hint("use the id")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tests::record;

    fn check(said: &str, expected: Result<u64, &str>) {
        let mut panes = vec![
            record(1, "web"),
            record(2, "db"),
            record(12, "web2"),
            record(13, "twin"),
            record(14, "twin"),
        ];
        let mut old = record(9, "db");
        old.ended = Some(crate::core::tests::ended());
        panes.push(old);
        let got = resolve(said, panes.iter());
        match expected {
            Ok(id) => assert_eq!(got, Ok(PaneId(id)), "{said}"),
            Err(says) => assert!(
                got.as_ref().unwrap_err().message.contains(says),
                "{said}: {got:?}"
            ),
        }
    }

    #[test]
    fn ids_come_before_names_and_names_before_shortened_ids() {
        check("p1", Ok(1));
        check("web", Ok(1));
        check("web2", Ok(12));
        check("p9", Ok(9));
    }

    #[test]
    fn a_live_pane_hides_an_ended_one_of_its_name() {
        check("db", Ok(2));
    }

    #[test]
    fn what_fits_several_or_none_is_refused_with_what_is_there() {
        check("twin", Err("p13 (twin, in main), p14"));
        check("p7", Err("no pane `p7`; 5 panes are open"));
        check("p", Err("no pane `p`"));
        check("", Err("no pane"));
    }
}
