//! Forms of a line: klog's text, and JSON with the keys of Kubernetes' components.

use std::fmt::{self, Write as _};

use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::tz::TimeZone;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::RENDERED;
use crate::client::Clock;

/// The message of an event, a field like the others for `tracing`.
const MESSAGE: &str = "message";

/// Fields of a span, kept as one JSON object, so that both forms can write them.
pub(super) struct Fields;

impl<'writer> FormatFields<'writer> for Fields {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut collected = Collected::default();
        fields.record(&mut collected);
        write!(writer, "{}", Value::Object(collected.fields))
    }
}

/// Message and fields of an event or span.
#[derive(Default)]
struct Collected {
    message: String,
    fields: Map<String, Value>,
}

impl Collected {
    fn put(&mut self, field: &Field, value: Value) {
        if field.name() != MESSAGE {
            self.fields.insert(field.name().to_owned(), value);
        } else if let Value::String(text) = value {
            self.message = text;
        } else {
            self.message = value.to_string();
        }
    }
}

impl Visit for Collected {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}

/// An event with the fields of the spans it happened in; the inner ones win.
fn collect<S, N>(context: &FmtContext<'_, S, N>, event: &Event<'_>) -> Collected
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    let mut collected = Collected::default();
    for span in context
        .event_scope()
        .into_iter()
        .flat_map(|spans| spans.from_root())
    {
        let extensions = span.extensions();
        let fields = extensions
            .get::<FormattedFields<N>>()
            .map(|fields| serde_json::from_str(&fields.fields));
        if let Some(Ok(Value::Object(fields))) = fields {
            collected.fields.extend(fields);
        }
    }
    event.record(&mut collected);
    collected
}

/// `file.rs:12`, where an event was written.
fn place(event: &Event<'_>) -> (&'static str, u32) {
    let metadata = event.metadata();
    let file = metadata.file().unwrap_or("unknown");
    (
        file.rsplit(['/', '\\']).next().unwrap_or(file),
        metadata.line().unwrap_or_default(),
    )
}

/// klog's verbosity of an event, the other way round than the filter reads it.
fn verbosity(event: &Metadata<'_>) -> Option<u8> {
    match *event.level() {
        Level::TRACE if event.target() == RENDERED => Some(5),
        Level::ERROR | Level::WARN => None,
        Level::INFO => Some(0),
        Level::DEBUG => Some(2),
        Level::TRACE => Some(4),
    }
}

/// `I1001 12:00:00.000000    4711 pass.rs:42] "message" key="value"`; a message without fields stands
/// without quotes, as klog writes one that is no structured event.
pub(super) struct Klog;

impl<S, N> FormatEvent<S, N> for Klog
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let line = klog_line(Clock::system().raw(), event, &collect(context, event));
        writer.write_str(&line)
    }
}

fn klog_line(now: Timestamp, event: &Event<'_>, collected: &Collected) -> String {
    let severity = match *event.metadata().level() {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        Level::INFO | Level::DEBUG | Level::TRACE => 'I',
    };
    let time = now.to_zoned(TimeZone::UTC).strftime("%m%d %H:%M:%S%.6f");
    let (file, line) = place(event);
    let mut text = format!("{severity}{time} {:>7} {file}:{line}] ", std::process::id());
    if collected.fields.is_empty() && !collected.message.contains('\n') {
        text.push_str(&collected.message);
    } else {
        // Quoted, so that a line stays a line.
        text.push_str(&format!("{:?}", collected.message));
    }
    for (key, value) in &collected.fields {
        // klog calls an error `err`.
        let key = if key == "error" { "err" } else { key };
        // Writing into a String cannot fail.
        let _ = match value {
            Value::String(value) => write!(text, " {key}={value:?}"),
            other => write!(text, " {key}={other}"),
        };
    }
    text.push('\n');
    text
}

/// `{"ts":1790856000000.000,"caller":"pass.rs:42","msg":"message","v":2,"key":"value"}`
pub(super) struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let line = json_line(Clock::system().raw(), event, collect(context, event));
        writer.write_str(&line)
    }
}

fn json_line(now: Timestamp, event: &Event<'_>, collected: Collected) -> String {
    let (file, line) = place(event);
    let mut object = Map::new();
    object.insert(
        "ts".to_owned(),
        (now.as_duration().as_secs_f64() * 1_000.0).into(),
    );
    object.insert(
        "level".to_owned(),
        event
            .metadata()
            .level()
            .as_str()
            .to_ascii_lowercase()
            .into(),
    );
    object.insert("caller".to_owned(), format!("{file}:{line}").into());
    object.insert("msg".to_owned(), collected.message.into());
    if let Some(verbosity) = verbosity(event.metadata()) {
        object.insert("v".to_owned(), verbosity.into());
    }
    for (key, value) in collected.fields {
        let key = if key == "error" {
            "err".to_owned()
        } else {
            key
        };
        // A field never hides what every line has.
        object.entry(key).or_insert(value);
    }
    format!("{}\n", Value::Object(object))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::super::testing::Lines;
    use super::*;

    /// What `event` writes inside the span of a pass, in the form of `format`.
    fn written<F>(format: F, event: impl FnOnce()) -> String
    where
        F: FormatEvent<tracing_subscriber::Registry, Fields> + Send + Sync + 'static,
    {
        let lines = Lines::default();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(lines.clone())
            .with_ansi(false)
            .fmt_fields(Fields)
            .event_format(format);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let _span = tracing::info_span!("pass", controller = "terraformcluster", name = "prod")
                .entered();
            event();
        });
        lines.text()
    }

    #[test]
    fn text_lines_are_those_of_klog() {
        let line = written(Klog, || {
            tracing::error!(error = "no \"luck\"", attempt = 3, "Reconciler error")
        });
        assert!(line.starts_with('E'), "{line}");
        let rest = line
            .split_once("format.rs:")
            .unwrap()
            .1
            .split_once("] ")
            .unwrap()
            .1;
        let fields = r#"attempt=3 controller="terraformcluster" err="no \"luck\"" name="prod""#;
        let mut words: Vec<&str> = fields.split(' ').collect();
        words.sort_unstable();
        let mut found: Vec<&str> = rest
            .trim_end()
            .strip_prefix("\"Reconciler error\" ")
            .unwrap()
            .split(' ')
            .collect();
        found.sort_unstable();
        assert_eq!(found, words);
    }

    #[test]
    fn a_message_without_fields_stands_without_quotes() {
        let lines = Lines::default();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(lines.clone())
            .with_ansi(false)
            .fmt_fields(Fields)
            .event_format(Klog);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!("{}", r#"FLAG: --v="2""#);
        });
        let line = lines.text();
        assert!(line.ends_with("] FLAG: --v=\"2\"\n"), "{line}");
    }

    #[test]
    fn json_lines_have_the_keys_of_kubernetes_components() {
        let line = written(Json, || tracing::debug!(msg = "hides nothing", "a pass"));
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["msg"], "a pass");
        assert_eq!(line["v"], 2);
        assert_eq!(line["level"], "debug");
        assert_eq!(line["controller"], "terraformcluster");
        assert!(line["ts"].as_f64().unwrap() > 1.7e12);
        assert!(line["caller"].as_str().unwrap().starts_with("format.rs:"));
    }
}
