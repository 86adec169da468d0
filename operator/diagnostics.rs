//! The diagnostics server: metrics, and the verbosity of the log (metrics-alerts.md §1).
//!
//! Over TLS every request is authenticated by a TokenReview and authorized by a SubjectAccessReview on
//! its own path. Over plain HTTP there is nothing but metrics.

mod review;
#[cfg(test)]
mod tests;

use std::path::Path;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum_server::tls_rustls::RustlsConfig;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::health::ServeError;
use super::logging;
use super::metrics::Metrics;
use super::settings::{Diagnostics, TlsSettings};
use super::tls::{self, CertificateError, CertificateFiles};
use crate::client::Access;
use review::Reviewer;

/// Where a certificate for metrics is looked for.
const CERTIFICATE_FOLDER: &str = "/tmp/k8s-metrics-server/serving-certs/";

/// The text format that is served.
const METRICS_TYPE: &str = prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

/// Starts the server in tasks of `background`.
///
/// # Errors
/// When its certificate cannot be used.
pub(super) fn serve(
    listener: TcpListener,
    diagnostics: &Diagnostics,
    settings: &TlsSettings,
    metrics: &Metrics,
    access: &Access,
    background: &mut JoinSet<()>,
) -> Result<(), ServeError> {
    if diagnostics.insecure {
        let router = open(metrics);
        background.spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        return Ok(());
    }
    let files = CertificateFiles::in_folder(Path::new(CERTIFICATE_FOLDER), "tls.crt", "tls.key");
    let config = certificate(&files, settings)?;
    if files.exist() {
        background.spawn(files.follow(settings.clone(), config.clone()));
    }
    let router = guarded(metrics, access);
    background.spawn(async move {
        let outcome = match listener.into_std() {
            Ok(listener) => serve_tls(listener, config, router).await,
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            tracing::error!(error = %error, "the diagnostics server ended");
        }
    });
    Ok(())
}

async fn serve_tls(
    listener: std::net::TcpListener,
    config: RustlsConfig,
    router: Router,
) -> std::io::Result<()> {
    axum_server::from_tcp_rustls(listener, config)?
        .serve(router.into_make_service())
        .await
}

fn certificate(
    files: &CertificateFiles,
    settings: &TlsSettings,
) -> Result<RustlsConfig, CertificateError> {
    let config = if files.exist() {
        files.load(settings)?
    } else {
        tls::self_signed(
            settings,
            vec![
                "localhost".to_owned(),
                "captf-controller-manager-metrics".to_owned(),
            ],
        )?
    };
    Ok(RustlsConfig::from_config(std::sync::Arc::new(config)))
}

/// What is served over plain HTTP.
fn open(metrics: &Metrics) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .with_state(metrics.clone())
}

/// What is served over TLS, to whom the API server allows it.
fn guarded(metrics: &Metrics, access: &Access) -> Router {
    let reviewer = Reviewer::new(access.clone());
    Router::new()
        .route("/metrics", get(scrape))
        .with_state(metrics.clone())
        .route("/debug/flags/v", put(set_verbosity))
        .layer(from_fn_with_state(reviewer, review::guard))
}

async fn scrape(State(metrics): State<Metrics>) -> Response {
    match metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics could not be written\n",
        )
            .into_response(),
    }
}

/// `PUT /debug/flags/v` with the verbosity as its body, as Kubernetes' components have it.
async fn set_verbosity(body: String) -> Response {
    let Ok(verbosity) = body.trim().parse() else {
        return (
            StatusCode::BAD_REQUEST,
            format!("{:?} is not a verbosity\n", body.trim()),
        )
            .into_response();
    };
    logging::set_verbosity(verbosity);
    (
        StatusCode::OK,
        format!("successfully set log verbosity to {verbosity}\n"),
    )
        .into_response()
}
