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

/// An instant, milliseconds since 1970, as a DATETIME column keeps it.
pub(crate) fn from_ms(ms: i64) -> String {
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = date_of(days);
    let (seconds, millis) = (in_day / 1000, in_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}")
}

/// Year, month and day of the day so many after 1970-01-01. Years begin in March here, so that a leap day ends one.
fn date_of(days: i64) -> (i64, i64, i64) {
    // From 0000-03-01 on; 400 years have 146 097 days, of which the last ends the leap day of a leap century.
    let days = days + 719_468;
    let (era, in_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_in_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_in_era + year_in_era / 4 - year_in_era / 100);
    // Months from March on have 153 days in five.
    let month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_in_era + i64::from(month <= 2);
    (year, month, day)
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
    fn instants_are_written_as_columns_keep_them() {
        for (ms, text) in [
            (0, "1970-01-01 00:00:00.000"),
            (-1, "1969-12-31 23:59:59.999"),
            (951_782_400_000, "2000-02-29 00:00:00.000"),
            (951_868_800_000, "2000-03-01 00:00:00.000"),
            (1_767_225_599_123, "2025-12-31 23:59:59.123"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000"),
        ] {
            assert_eq!(text, from_ms(ms));
            assert_eq!(Ok(None), fit_date_time(text));
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
