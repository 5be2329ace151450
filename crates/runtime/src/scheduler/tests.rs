//! Beginning and ending to decide.

use std::sync::atomic::Ordering;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;

use serde_json::json;

use super::*;
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

/// Why a server with such a certificate is not talked to, by a client that trusts it or does not.
async fn refused(name: &str, trusted: bool, change: impl FnOnce(&mut CertificateParams)) -> String {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    // Authorities are told apart by their names first.
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
    // What cannot pass is not waited for.
    if !trusted || name != "127.0.0.1" {
        let waited =
            tokio::time::timeout(Duration::from_mins(1), wait_until_reachable(&config)).await;
        assert!(waited.expect("it ends at once").is_err());
    }
    server.abort();
    format!("{error:#}")
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_is_told_in_one_sentence() {
    // Takes connections, and never says a word.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    // Not those of the machine, which may have none.
    let root = rcgen::generate_simple_self_signed(["root".to_owned()]).unwrap();
    config.root_cert = Some(vec![root.cert.der().to_vec()]);
    let error = check_connection(&connect::client(&config).unwrap()).await.unwrap_err();
    assert_eq!(format!("{error:#}"), "the API server did not answer for 10s");
}

#[tokio::test]
async fn a_server_whose_certificate_is_not_good_is_told_in_one_sentence() {
    let expired =
        |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let future =
        |params: &mut CertificateParams| params.not_before = rcgen::date_time_ymd(2500, 1, 1);
    for (error, want) in [
        (refused("127.0.0.1", true, expired).await, "expired"),
        (refused("127.0.0.1", true, future).await, "not valid yet"),
        (refused("127.0.0.1", false, |_| {}).await, "UnknownIssuer"),
        (refused("example.com", true, |_| {}).await, "not valid for name"),
    ] {
        assert!(error.contains("certificate") && error.contains(want), "{want}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_and_rights_that_are_not_enough_are_told_apart() {
    for (status, told) in [(401, "does not accept our credentials"), (403, "may not list nodes")] {
        let fake = FakeApiServer::new(move |asked| match &*asked.path {
            "/api/v1/nodes" => Reply::failure(status, "no"),
            _ => Reply::json(200, &json!({"items": []})),
        });
        let error = check_rights(&fake.client()).await.unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
    let broken = FakeApiServer::new(|_| Reply::failure(500, "later"));
    assert!(check_rights(&broken.client()).await.is_ok(), "that may pass");
}

#[tokio::test(start_paused = true)]
async fn a_leader_does_not_decide_before_a_new_list() {
    let (scheduler, mut inputs) = scheduler();
    scheduler.lead(true).await;
    sleep(Duration::from_hours(1)).await;
    assert!(inputs.is_empty(), "nodes and pods were not listed since");
    scheduler.lead(false).await;
    assert!(matches!(inputs.recv().await, Some(Input::Lead(false))));
    sleep(Duration::from_hours(1)).await;
    assert!(inputs.is_empty(), "the lead that was lost does not begin later");
}

/// What the engine shows of itself.
fn show(scheduler: &Scheduler, leading: bool, binding: usize) {
    scheduler.status.binds_in_flight.store(binding, Ordering::Relaxed);
    scheduler.status.leading.store(leading, Ordering::Release);
}

/// How long it takes to end to write; afterwards nothing may be sent.
async fn stop_writing(scheduler: &Scheduler) -> Duration {
    let begun = Instant::now();
    scheduler.stop_writing().await;
    assert!(scheduler.gate.begin_write().await.is_err(), "it may still write");
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn with_nothing_under_way_writing_ends_at_once() {
    let (scheduler, mut inputs) = scheduler();
    let answered = scheduler.gate.begin_write().await.unwrap();
    answered.answered(StatusCode::OK);
    assert!(stop_writing(&scheduler).await < Duration::from_millis(100));
    assert!(matches!(inputs.recv().await, Some(Input::Lead(false))));
}

#[tokio::test(start_paused = true)]
async fn writing_ends_when_what_is_under_way_is_answered_or_too_old_to_land() {
    let second = Duration::from_secs(1);
    // A write that is answered soon after the gate closed.
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
async fn binds_that_do_not_end_and_an_engine_that_takes_no_input_end_in_a_bounded_time() {
    let limit = 3 * MARGIN;
    let (scheduler, _inputs) = scheduler();
    show(&scheduler, false, 1);
    let took = stop_writing(&scheduler).await;
    assert!(took >= MARGIN && took < limit, "{took:?}");
    // Its inputs are full.
    let (scheduler, _inputs) = self::scheduler();
    show(&scheduler, true, 0);
    while scheduler.inputs.try_send(Input::Audit).is_ok() {}
    let took = stop_writing(&scheduler).await;
    assert!(took >= MARGIN && took < limit, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn while_binds_go_on_they_may_be_sent_again_for_a_moment() {
    let (scheduler, _inputs) = scheduler();
    show(&scheduler, false, 1);
    let binds = async {
        sleep(Duration::from_secs(1)).await;
        assert!(scheduler.gate.write().await.is_ok());
        show(&scheduler, false, 0);
    };
    let (took, ()) = tokio::join!(stop_writing(&scheduler), binds);
    assert!(took < Duration::from_secs(2), "{took:?}");
}
