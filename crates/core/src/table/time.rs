//! Checks dates and times kept as text, so that their order as text is their order in time.

type Misfit = &'static str;

const NOT_A_DATE: Misfit = "expected YYYY-MM-DD";
const NOT_A_TIME: Misfit = "expected YYYY-MM-DD HH:MM:SS";

/// Is this `YYYY-MM-DD` and a day of the calendar?
pub(crate) fn fit_date(text: &str) -> Result<(), Misfit> {
    date(text.as_bytes()).ok_or(NOT_A_DATE)
}

/// Checks `YYYY-MM-DD HH:MM:SS[.f]`. The ISO spellings that mean the same instant (a `T`, a final `Z`, no seconds, no
/// time) are accepted and come back in that form; a zone other than UTC is refused, as it would not sort.
pub(crate) fn fit_date_time(text: &str) -> Result<Option<String>, Misfit> {
    let bytes = text.as_bytes();
    let (day, rest) = bytes.split_at_checked(10).ok_or(NOT_A_TIME)?;
    date(day).ok_or(NOT_A_TIME)?;
    let day = &text[..10];
    if rest.is_empty() {
        return Ok(Some(format!("{day} 00:00:00")));
    }
    let clock = rest[1..].strip_suffix(b"Z").unwrap_or(&rest[1..]);
    if !matches!(rest[0], b' ' | b'T') {
        return Err(NOT_A_TIME);
    }
    time(clock).ok_or(NOT_A_TIME)?;
    let seconds = if clock.len() == 5 { ":00" } else { "" };
    if rest[0] == b' ' && clock.len() == rest.len() - 1 && seconds.is_empty() {
        return Ok(None);
    }
    let clock = &text[11..11 + clock.len()];
    Ok(Some(format!("{day} {clock}{seconds}")))
}

/// The text may hold bytes beyond ASCII, but every byte that passes is a digit or a sign.
fn date(text: &[u8]) -> Option<()> {
    if text.len() != 10 || text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(&text[..4])?, digits(&text[5..7])?, digits(&text[8..])?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then_some(())
}

fn time(text: &[u8]) -> Option<()> {
    let below = |range: std::ops::Range<usize>, limit: u32| Some(digits(text.get(range)?)? < limit);
    let clock = below(0..2, 24)? && text[2] == b':' && below(3..5, 60)?;
    let seconds = text.len() == 5 || (text[5] == b':' && below(6..8, 60)?);
    let fraction = text.len() <= 8 || (text[8] == b'.' && text.len() <= 15 && digits(&text[9..]).is_some());
    (clock && seconds && fraction).then_some(())
}

fn digits(text: &[u8]) -> Option<u32> {
    let number = text.iter().try_fold(0u32, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))?;
    (!text.is_empty()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar_pass_and_no_others() {
        for day in ["2024-02-29", "2000-02-29", "1999-12-31", "0001-01-01"] {
            assert!(fit_date(day).is_ok(), "{day}");
        }
        for day in [
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "2024-00-10",
            "2024-04-31",
            "2024-1-01",
            "",
            "20240101",
            "2024-01-01 ",
            "\u{664}\u{664}-01-01",
        ] {
            assert!(fit_date(day).is_err(), "{day}");
        }
    }

    #[test]
    fn instants_take_their_canonical_form() {
        let same = ["2024-01-01 10:20:30", "2024-01-01 00:00:00.5", "2024-01-01 23:59:59.123456"];
        for text in same {
            assert_eq!(Ok(None), fit_date_time(text), "{text}");
        }
        for (text, canonical) in [
            ("2024-01-01T10:20:30", "2024-01-01 10:20:30"),
            ("2024-01-01T10:20:30Z", "2024-01-01 10:20:30"),
            ("2024-01-01 10:20", "2024-01-01 10:20:00"),
            ("2024-01-01", "2024-01-01 00:00:00"),
            ("2024-01-01 10:20:30.25Z", "2024-01-01 10:20:30.25"),
        ] {
            assert_eq!(Ok(Some(canonical.to_string())), fit_date_time(text));
        }
        for text in [
            "2024-01-01 ",
            "2024-01-01 24:00:00",
            "2024-01-01 10:60:00",
            "2024-01-01 10:20:30+02:00",
            "2024-01-01 10:20:30.",
            "2024-01-01 10:20:30.1234567",
            "2024-01-01x10:20:30",
            "2024-01-01 1",
            "2024-01-0\u{e9}",
        ] {
            assert!(fit_date_time(text).is_err(), "{text}");
        }
    }
}
