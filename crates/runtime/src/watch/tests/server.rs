//! A server that keeps the history of one kind, and somebody who listens to its reflector.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::*;
use crate::testing::{FakeApiServer, ReceivedRequest};

/// An object: its uid and version.
type Object = (String, u64);

#[derive(Clone)]
enum HistoryEvent {
    Put(String, Object),
    Deleted(String, Object),
}

pub(super) struct HistoryServer {
    pub(super) objects: BTreeMap<String, Object>,
    pub(super) version: u64,
    /// What happened, and in which version.
    history: Vec<(u64, HistoryEvent)>,
    /// Versions up to this one are not remembered.
    forgotten: u64,
    pub(super) streaming_lists: Result<(), u16>,
    /// Tells that a version is too old by an event.
    pub(super) expired_inside: bool,
    pub(super) page: usize,
    /// How requests are answered before the server answers by itself; `None` is by itself.
    pub(super) script: VecDeque<Option<Reply>>,
    /// Where streams are cut: after so many bytes.
    pub(super) cuts: VecDeque<usize>,
    /// Streams begin so many versions too early.
    pub(super) repeats: u64,
    /// Answers are protobuf, not JSON.
    pub(super) protobuf: bool,
    changed: std::sync::Arc<Notify>,
    epoch: u64,
}

impl HistoryServer {
    pub(super) fn put(&mut self, name: &str) {
        self.put_silently(name);
        self.changed.notify_waiters();
    }

    /// Watches are behind.
    pub(super) fn put_silently(&mut self, name: &str) {
        self.version += 1;
        let version = self.version;
        let uid = self.objects.get(name).map_or_else(|| format!("uid-{version}"), |o| o.0.clone());
        self.objects.insert(name.to_owned(), (uid.clone(), version));
        self.history.push((version, HistoryEvent::Put(name.to_owned(), (uid, version))));
    }

    pub(super) fn delete(&mut self, name: &str) {
        if let Some((uid, _)) = self.objects.remove(name) {
            self.version += 1;
            let gone = HistoryEvent::Deleted(name.to_owned(), (uid, self.version));
            self.history.push((self.version, gone));
            self.changed.notify_waiters();
        }
    }

    /// Ends all streams.
    pub(super) fn disconnect(&mut self) {
        self.epoch += 1;
        self.changed.notify_waiters();
    }

    /// Forgets what happened.
    pub(super) fn forget(&mut self) {
        self.forgotten = self.version;
    }

    /// An event of the history as a line.
    pub(super) fn event(&self, position: usize) -> Vec<u8> {
        self.piece_of(&self.history[position].1)
    }

    fn events_after(&self, version: u64) -> Vec<u8> {
        let after = self.history.iter().filter(|(at, _)| *at > version);
        after.flat_map(|(_, event)| self.piece_of(event)).collect()
    }

    /// All objects and the end of them, as a streaming list has them.
    pub(super) fn initial(&self) -> Vec<u8> {
        let put = |(name, object): (&String, &Object)| {
            self.piece_of(&HistoryEvent::Put(name.clone(), object.clone()))
        };
        let mut bytes: Vec<u8> = self.objects.iter().flat_map(put).collect();
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let meta = json!({"resourceVersion": self.version.to_string(), "annotations": annotations});
        bytes.extend(self.piece("BOOKMARK", &json!({"metadata": meta})));
        bytes
    }

    fn list(&self, asked: &ReceivedRequest) -> Reply {
        let from = asked.parameter("continue").unwrap_or_default();
        let from: usize = from.split(' ').next().unwrap().parse().unwrap_or(0);
        let count = self.page.min(self.objects.len() - from);
        let page = self.objects.iter().skip(from).take(count);
        let items: Vec<Value> = page.map(|(name, object)| object_of(name, object)).collect();
        let end = from + count;
        let token = if end < self.objects.len() {
            // Tokens hold characters that must be encoded.
            format!("{end} of/{}&", self.objects.len())
        } else {
            String::new()
        };
        let meta = json!({"resourceVersion": self.version.to_string(), "continue": token});
        if self.protobuf {
            let page = BodyPart::Data(protobuf::list(&meta, &items));
            return Reply::stream(200, vec![page]).header("content-type", protobuf::TYPE);
        }
        Reply::json(200, &json!({"metadata": meta, "items": items}))
    }

    fn answer(server: &Arc<Mutex<Self>>, asked: &ReceivedRequest) -> Reply {
        let mut this = lock(server);
        if let Some(Some(scripted)) = this.script.pop_front() {
            return scripted;
        }
        if asked.parameter("watch").is_none() {
            return this.list(asked);
        }
        let mut bytes;
        let mut sent = this.version;
        if asked.parameter("sendInitialEvents").is_some() {
            if let Err(status) = this.streaming_lists {
                return Reply::failure(status, "sendInitialEvents is forbidden");
            }
            bytes = this.initial();
        } else {
            let from: u64 = asked.parameter("resourceVersion").unwrap().parse().unwrap();
            if from < this.forgotten && this.expired_inside {
                let object = json!({"kind": "Status", "code": 410, "reason": "Expired"});
                return this
                    .stream(vec![BodyPart::Data(this.piece("ERROR", &object)), BodyPart::Hang]);
            } else if from < this.forgotten {
                return Reply::failure(410, "too old resource version");
            }
            bytes = this.events_after(from.saturating_sub(this.repeats));
            sent = sent.max(from);
        }
        if let Some(cut) = this.cuts.pop_front() {
            bytes.truncate(cut);
            return this.stream(vec![BodyPart::Data(bytes), BodyPart::Break]);
        }
        let (epoch, changed) = (this.epoch, Arc::clone(&this.changed));
        let server = Arc::clone(server);
        let more = futures::stream::unfold(sent, move |sent| {
            let (server, changed) = (Arc::clone(&server), Arc::clone(&changed));
            async move {
                loop {
                    let waiting = changed.notified();
                    tokio::pin!(waiting);
                    waiting.as_mut().enable();
                    {
                        let this = lock(&server);
                        if this.epoch != epoch {
                            return None;
                        }
                        let bytes = this.events_after(sent);
                        if !bytes.is_empty() {
                            return Some((BodyPart::Data(bytes), this.version));
                        }
                    }
                    waiting.await;
                }
            }
        });
        let reply = Reply::endless(200, vec![BodyPart::Data(bytes)], more);
        if this.protobuf { reply.header("content-type", protobuf::STREAM_TYPE) } else { reply }
    }

    fn stream(&self, parts: Vec<BodyPart>) -> Reply {
        let reply = Reply::stream(200, parts);
        if self.protobuf { reply.header("content-type", protobuf::STREAM_TYPE) } else { reply }
    }

    /// An event in the server's form.
    fn piece(&self, event: &str, object: &Value) -> Vec<u8> {
        if self.protobuf { protobuf::frame(event, object) } else { line(event, object) }
    }

    fn piece_of(&self, event: &HistoryEvent) -> Vec<u8> {
        match event {
            HistoryEvent::Put(name, object) => self.piece("ADDED", &object_of(name, object)),
            HistoryEvent::Deleted(name, object) => self.piece("DELETED", &object_of(name, object)),
        }
    }
}

pub(super) fn line(event: &str, object: &Value) -> Vec<u8> {
    format!("{}\n", json!({"type": event, "object": object})).into_bytes()
}

pub(super) fn object_of(name: &str, (uid, version): &Object) -> Value {
    json!({"metadata": {"name": name, "uid": uid, "resourceVersion": version.to_string()}})
}

/// What the engine would know.
pub(super) struct InputObserver {
    inputs: mpsc::Receiver<Input>,
    pub(super) names: std::collections::BTreeSet<String>,
    pub(super) log: Vec<String>,
    pub(super) synced: bool,
    pub(super) synced_times: usize,
}

impl InputObserver {
    fn hear(&mut self) {
        while let Ok(input) = self.inputs.try_recv() {
            match input {
                Input::Synced => {
                    self.synced = true;
                    self.synced_times += 1;
                }
                Input::Change(Change::Namespace(namespace)) => self.put(&namespace.name),
                Input::Change(Change::DeviceClass { name, .. }) => self.put(&name),
                Input::Change(Change::NamespaceGone(name) | Change::DeviceClassGone(name)) => {
                    self.log.push(format!("-{name}"));
                    assert!(self.names.remove(&*name), "{name} was not known");
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn put(&mut self, name: &str) {
        self.log.push(format!("+{name}"));
        self.names.insert(name.to_owned());
    }
}

pub(super) struct ReflectorFixture {
    pub(super) server: Arc<Mutex<HistoryServer>>,
    pub(super) fake: FakeApiServer,
    pub(super) status: Arc<WatchStatus>,
    pub(super) metrics: Metrics,
    pub(super) observer: InputObserver,
    pub(super) task: JoinHandle<()>,
}

impl ReflectorFixture {
    pub(super) fn start(kind: &str, prepare: impl FnOnce(&mut HistoryServer)) -> Self {
        Self::start_as(kind, prepare, |reflector| reflector)
    }

    /// With a reflector that is made different.
    pub(super) fn start_as(
        kind: &str,
        prepare: impl FnOnce(&mut HistoryServer),
        make: impl FnOnce(Reflector) -> Reflector,
    ) -> Self {
        let mut server = HistoryServer {
            objects: BTreeMap::new(),
            version: 0,
            history: Vec::new(),
            forgotten: 0,
            streaming_lists: Ok(()),
            expired_inside: false,
            page: 1000,
            script: VecDeque::new(),
            cuts: VecDeque::new(),
            repeats: 0,
            protobuf: false,
            changed: Arc::default(),
            epoch: 0,
        };
        prepare(&mut server);
        let server = Arc::new(Mutex::new(server));
        let answering = Arc::clone(&server);
        let fake = FakeApiServer::new(move |asked| HistoryServer::answer(&answering, asked));
        let kind = KINDS.iter().find(|known| known.name == kind).unwrap();
        let (sender, inputs) = mpsc::channel(100_000);
        let (status, metrics) = (Arc::new(WatchStatus::default()), Metrics::new("lease"));
        let reflector =
            Reflector::new(kind, fake.client(), sender, Arc::clone(&status), metrics.clone());
        let task = tokio::spawn(make(reflector).run());
        let observer = InputObserver {
            inputs,
            names: std::collections::BTreeSet::new(),
            log: Vec::new(),
            synced: false,
            synced_times: 0,
        };
        Self { server, fake, status, metrics, observer, task }
    }

    /// Lets time pass.
    pub(super) async fn wait(&mut self, time: Duration) {
        sleep(time).await;
        self.observer.hear();
    }

    /// Enough time for what needs one request or two.
    pub(super) async fn settle(&mut self) {
        self.wait(Duration::from_millis(500)).await;
    }

    /// Enough time for a change to arrive, and for one failure before.
    pub(super) async fn change(&mut self) {
        self.wait(Duration::from_secs(1)).await;
    }

    /// What is known is what there is.
    pub(super) fn agree(&self) {
        let there: Vec<String> = lock(&self.server).objects.keys().cloned().collect();
        let known: Vec<String> = self.observer.names.iter().cloned().collect();
        assert_eq!(known, there, "log: {:?}", self.observer.log);
    }
}
