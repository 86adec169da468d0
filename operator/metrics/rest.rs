//! `rest_client_requests_total`: requests to the API server, under client-go's name.

use http::Request;
use kube::client::Body;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{Metrics, registered};

type RequestLabels = [(&'static str, String); 3];

#[derive(Clone)]
pub(super) struct Families {
    requests: Family<RequestLabels, Counter>,
}

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let help = "Number of HTTP requests, partitioned by status code, method, and host";
        Self {
            requests: registered(registry, "rest_client_requests", help, Family::default()),
        }
    }
}

/// The same client, with every request counted. `host` is the API server's host and port.
///
/// Status code and method are bounded by HTTP, the host is constant.
#[must_use]
pub fn counted(client: kube::Client, metrics: &Metrics, host: &str) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let requests = metrics.rest.requests.clone();
    let host = host.to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, requests, host) = (client.clone(), requests.clone(), host.clone());
        async move {
            let method = request.method().as_str().to_owned();
            let answer = client.send(request).await;
            let code = match &answer {
                Ok(response) => response.status().as_str().to_owned(),
                Err(_) => "<error>".to_owned(),
            };
            let labels = [("code", code), ("method", method), ("host", host)];
            requests.get_or_create(&labels).inc();
            answer
        }
    });
    kube::Client::new(service, namespace)
}
