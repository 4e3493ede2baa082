//! Value parsers for CLI arguments whose form differs from the tool argument.

use clap::builder::{BoolValueParser, TypedValueParser};

/// Milliseconds from a duration such as `500ms`, `60s`, `5m` or `1h30m`. A plain number is in seconds.
pub(crate) fn duration_ms(text: &str) -> Result<u64, String> {
    let expected = "wanted a time such as `500ms`, `60s`, `5m` or `1h30m`";
    let duration = match text.parse::<u64>() {
        Ok(seconds) => std::time::Duration::from_secs(seconds),
        Err(_) => humantime::parse_duration(text).map_err(|_| expected.to_owned())?,
    };
    u64::try_from(duration.as_millis()).map_err(|_| expected.to_owned())
}

/// Seconds from a duration in the same form.
pub(crate) fn duration_secs(text: &str) -> Result<f64, String> {
    duration_ms(text).map(|ms| ms as f64 / 1000.0)
}

/// The value of an argument that the command line sets by a flag.
pub(crate) fn flag<T: Clone + Send + Sync + 'static>(
    absent: T,
    present: T,
) -> impl TypedValueParser<Value = T> {
    BoolValueParser::new().map(move |is_present| {
        if is_present {
            present.clone()
        } else {
            absent.clone()
        }
    })
}

/// Implements [`clap::Args`] for an enum by conversion from a struct of flags.
macro_rules! impl_args_by_flags {
    ($value:ty, $flags:ty) => {
        impl clap::FromArgMatches for $value {
            fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
                <$flags as clap::FromArgMatches>::from_arg_matches(matches).map(Into::into)
            }

            fn update_from_arg_matches(
                &mut self,
                matches: &clap::ArgMatches,
            ) -> Result<(), clap::Error> {
                *self = <Self as clap::FromArgMatches>::from_arg_matches(matches)?;
                Ok(())
            }
        }

        impl clap::Args for $value {
            fn augment_args(command: clap::Command) -> clap::Command {
                <$flags as clap::Args>::augment_args(command)
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                <$flags as clap::Args>::augment_args_for_update(command)
            }
        }
    };
}
pub(crate) use impl_args_by_flags;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_plain_numbers_are_seconds() {
        for (text, ms) in [
            ("500ms", Some(500)),
            ("60s", Some(60_000)),
            ("60", Some(60_000)),
            ("0", Some(0)),
            ("5m", Some(300_000)),
            ("1h30m", Some(5_400_000)),
            ("1m 30s", Some(90_000)),
            ("", None),
            ("soon", None),
            ("-5s", None),
            ("5 parsecs", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(duration_ms(text).ok(), ms, "{text:?}");
        }
    }
}
