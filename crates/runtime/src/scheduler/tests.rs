//! Tests of the checks at startup, of leadership and of the handover.

use std::sync::atomic::Ordering;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;

use serde_json::json;

use super::*;
use crate::api_error::Chain;
use crate::lease::MARGIN;
use crate::testing::{FakeApiServer, Reply};

fn scheduler() -> (Scheduler, mpsc::Receiver<Input>) {
    let (inputs, receiver) = mpsc::channel(100);
    let status = Arc::new(DriverStatus::default());
    let fake = FakeApiServer::new(|_| Reply::json(201, &json!({})));
    let events =
        EventRecorder::start(fake.client(), Throttle::none(), "x".into(), Metrics::new("x"));
    let (watches, gate) = (Watches::new(), Gate::from(Fence::always()));
    let pending_lead = Mutex::default();
    (Scheduler { inputs, watches, gate, events, status, pending_lead }, receiver)
}

/// Returns the error of connecting to a server whose certificate `change` alters, with a client that
/// trusts it or does not.
async fn connection_error(
    name: &str,
    trusted: bool,
    change: impl FnOnce(&mut CertificateParams),
) -> String {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    // Verification looks up authorities by their names.
    params.distinguished_name.push(rcgen::DnType::CommonName, "server");
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let _ = TlsAcceptor::from(Arc::new(tls.clone())).accept(stream).await;
        }
    });
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    let root = if trusted { &certificate } else { other.cert.der() };
    config.root_cert = Some(vec![root.to_vec()]);
    let error = check_connection(&connect::client(&config).unwrap()).await.unwrap_err();
    // Permanent errors end the wait.
    if !trusted || name != "127.0.0.1" {
        let waited =
            tokio::time::timeout(Duration::from_mins(1), wait_until_reachable(&config)).await;
        assert!(waited.expect("it ends at once").is_err());
    }
    server.abort();
    Chain(&error).to_string()
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_silent_server_is_one_sentence() {
    // Accepts connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    // A root of its own, since the machine may have none.
    let root = rcgen::generate_simple_self_signed(["root".to_owned()]).unwrap();
    config.root_cert = Some(vec![root.cert.der().to_vec()]);
    let error = check_connection(&connect::client(&config).unwrap()).await.unwrap_err();
    assert_eq!(Chain(&error).to_string(), "the API server did not answer for 10s");
}

#[tokio::test]
async fn the_error_of_an_invalid_certificate_is_one_sentence() {
    let expired =
        |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let future =
        |params: &mut CertificateParams| params.not_before = rcgen::date_time_ymd(2500, 1, 1);
    for (error, want) in [
        (connection_error("127.0.0.1", true, expired).await, "expired"),
        (connection_error("127.0.0.1", true, future).await, "not valid yet"),
        (connection_error("127.0.0.1", false, |_| {}).await, "UnknownIssuer"),
        (connection_error("example.com", true, |_| {}).await, "not valid for name"),
    ] {
        assert!(error.contains("certificate") && error.contains(want), "{want}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_credentials_and_missing_rights_have_different_errors() {
    for (status, expected) in
        [(401, "does not accept our credentials"), (403, "may not list nodes")]
    {
        let fake = FakeApiServer::new(move |request| match &*request.path {
            "/api/v1/nodes" => Reply::failure(status, "no"),
            _ => Reply::json(200, &json!({"items": []})),
        });
        let error = check_rights(&fake.client()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let broken = FakeApiServer::new(|_| Reply::failure(500, "later"));
    assert!(check_rights(&broken.client()).await.is_ok(), "a temporary error");
}

#[tokio::test(start_paused = true)]
async fn a_leader_does_not_decide_before_a_relist() {
    let (scheduler, mut inputs) = scheduler();
    scheduler.lead(true).await;
    sleep(Duration::from_hours(1)).await;
    assert!(inputs.is_empty(), "nodes and pods were not relisted");
    scheduler.lead(false).await;
    assert!(matches!(inputs.recv().await, Some(Input::Lead(false))));
    sleep(Duration::from_hours(1)).await;
    assert!(inputs.is_empty(), "lost leadership does not start later");
}

/// Sets the status of the engine's loop.
fn set_status(scheduler: &Scheduler, leading: bool, binding: usize) {
    scheduler.status.binds_in_flight.store(binding, Ordering::Relaxed);
    scheduler.status.leading.store(leading, Ordering::Release);
}

/// Stops writing and returns how long that took.
async fn stop_writing(scheduler: &Scheduler) -> Duration {
    let begun = Instant::now();
    scheduler.stop_writing().await;
    assert!(scheduler.gate.begin_write().await.is_err(), "writes are still possible");
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn without_writes_in_flight_writing_stops_at_once() {
    let (scheduler, mut inputs) = scheduler();
    let answered = scheduler.gate.begin_write().await.unwrap();
    answered.answered(StatusCode::OK);
    assert!(stop_writing(&scheduler).await < Duration::from_millis(100));
    assert!(matches!(inputs.recv().await, Some(Input::Lead(false))));
}

#[tokio::test(start_paused = true)]
async fn writing_stops_when_writes_in_flight_are_answered_or_too_old_to_land() {
    let second = Duration::from_secs(1);
    // A write that is answered soon after the gate was closed.
    let (scheduler, _inputs) = scheduler();
    let write = scheduler.gate.begin_write().await.unwrap();
    let answer = async {
        sleep(second).await;
        write.answered(StatusCode::OK);
    };
    let (took, ()) = tokio::join!(stop_writing(&scheduler), answer);
    assert!(took >= second && took < 2 * second, "{took:?}");
    // One that is never answered.
    let (scheduler, _inputs) = self::scheduler();
    drop(scheduler.gate.begin_write().await.unwrap());
    sleep(second).await;
    let took = stop_writing(&scheduler).await;
    assert!(took + second >= MARGIN && took < MARGIN, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn endless_binds_and_a_stuck_engine_delay_the_stop_for_a_limited_time() {
    let limit = 3 * MARGIN;
    let (scheduler, _inputs) = scheduler();
    set_status(&scheduler, false, 1);
    let took = stop_writing(&scheduler).await;
    assert!(took >= MARGIN && took < limit, "{took:?}");
    // The channel of inputs is full.
    let (scheduler, _inputs) = self::scheduler();
    set_status(&scheduler, true, 0);
    while scheduler.inputs.try_send(Input::Audit).is_ok() {}
    let took = stop_writing(&scheduler).await;
    assert!(took >= MARGIN && took < limit, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn binds_in_flight_may_be_retried_before_the_gate_closes() {
    let (scheduler, _inputs) = scheduler();
    set_status(&scheduler, false, 1);
    let binds = async {
        sleep(Duration::from_secs(1)).await;
        assert!(scheduler.gate.write().await.is_ok());
        set_status(&scheduler, false, 0);
    };
    let (took, ()) = tokio::join!(stop_writing(&scheduler), binds);
    assert!(took < Duration::from_secs(2), "{took:?}");
}
