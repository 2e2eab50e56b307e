// A fake API server for the mirror of cluster jobs: lists in small pages that expire, watches that break, repeat and
// forget, logs that break off within a line, and restarts without any answer. One seed decides its behaviour. `truth`
// has the true events.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Chance } from '../../sim/chance.ts';

/** The output of one container, and whether it has ended. */
export interface ContainerOutput {
  readonly job: string;
  readonly pod: string;
  readonly container: string;
  text: string;
  ended: boolean;
  /** Its pod was removed, so no more output can be read. */
  removed: boolean;
}

interface ApiObject {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly namespace: string;
    readonly creationTimestamp: string;
    readonly labels: Readonly<Record<string, string>>;
    resourceVersion: string;
  };
  spec: object;
  status: object;
}

interface ContainerLog extends ContainerOutput {
  readonly lines: { readonly at: number; readonly text: string }[];
}

/** The server, and the functions that cause events. */
export interface FakeApiServer {
  readonly url: string;
  readonly printed: readonly ContainerOutput[];
  /** All jobs that ever existed: their phase in the mirror's terms, and whether they are deleted. */
  readonly actualJobs: ReadonlyMap<string, { phase: string; gone: boolean }>;
  /** Returns its uid. */
  createJob(name: string): string;
  /** One event: lines are printed, containers end, pods are replaced, jobs end and are removed. */
  step(): void;
  /** Everything ends by itself, and no fault happens any more. */
  stopFaults(): void;
  restart(forMs: number): void;
  /** Old versions are forgotten: lists and watches that continue from them are refused. */
  compact(): void;
  removeAll(): void;
  readonly isFinished: boolean;
  close(): Promise<void>;
}

const startTime = Date.UTC(2026, 10, 22, 12, 0, 0);

/** Listens on loopback until it is closed. `installation` is the label of the jobs. */
export async function openFakeApiServer(chance: Chance, installation: string): Promise<FakeApiServer> {
  let version = 10;
  let oldest = 0;
  let time = startTime;
  let areFaultsStopped = false;
  let awayUntil = 0;
  const kinds = { jobs: new Map<string, ApiObject>(), pods: new Map<string, ApiObject>() };
  const history: { version: number; kind: 'jobs' | 'pods'; type: string; object: string }[] = [];
  const listeners = new Set<() => void>();
  const sockets = new Set<Socket>();
  const logs: ContainerLog[] = [];
  const actualJobs = new Map<string, { phase: string; gone: boolean }>();
  let count = 0;

  const formatLogTime = (at: number): string => `${new Date(at).toISOString().slice(0, 23)}000000Z`;
  const formatTime = (at: number): string => `${new Date(at).toISOString().slice(0, 19)}Z`;
  const notifyListeners = (): void => listeners.forEach((call) => call());

  function put(kind: 'jobs' | 'pods', apiObject: ApiObject, type: 'ADDED' | 'MODIFIED' | 'DELETED'): void {
    version += 1;
    apiObject.metadata.resourceVersion = String(version);
    if (type === 'DELETED') kinds[kind].delete(apiObject.metadata.uid);
    else kinds[kind].set(apiObject.metadata.uid, apiObject);
    history.push({ version, kind, type, object: JSON.stringify(apiObject) });
    notifyListeners();
  }

  function apiObject(name: string, uid: string, labels: Readonly<Record<string, string>>): ApiObject {
    const creationTimestamp = formatTime(time);
    const metadata = { name, uid, namespace: 'vision', creationTimestamp, resourceVersion: '', labels };
    return { metadata, spec: {}, status: {} };
  }

  const labelsOf = (name: string) => ({
    'app.kubernetes.io/managed-by': 'jobman',
    'jobman/owner': 'ada',
    'jobman/installation': installation,
    'jobman/job': name,
  });

  function createPod(job: ApiObject): void {
    count += 1;
    const { name, uid } = job.metadata;
    const names = chance.yes(0.3) ? ['main', 'side'] : ['main'];
    const own = { 'batch.kubernetes.io/job-name': name, 'batch.kubernetes.io/controller-uid': uid };
    const pod = apiObject(`${name}-${count}`, `pod-${count}`, { ...labelsOf(name), ...own });
    pod.spec = { nodeName: 'n1', containers: names.map((one) => ({ name: one, image: 'alpine' })) };
    for (const container of names) {
      logs.push({ job: uid, pod: pod.metadata.name, container, text: '', ended: false, removed: false, lines: [] });
    }
    setPodStatus(pod, 'ADDED');
    job.status = { ...job.status, active: 1, ready: 1, startTime: formatTime(time) };
    put('jobs', job, 'MODIFIED');
  }

  const logsOf = (pod: ApiObject): readonly ContainerLog[] => logs.filter((log) => log.pod === pod.metadata.name);

  function setPodStatus(pod: ApiObject, type: 'ADDED' | 'MODIFIED', exitCode = 0): void {
    const at = formatTime(time);
    const all = logsOf(pod);
    pod.status = {
      phase: all.every(({ ended }) => ended) ? (exitCode === 0 ? 'Succeeded' : 'Failed') : 'Running',
      containerStatuses: all.map(({ container, ended }) => ({
        name: container,
        state: ended
          ? { terminated: { exitCode, startedAt: pod.metadata.creationTimestamp, finishedAt: at } }
          : { running: { startedAt: pod.metadata.creationTimestamp } },
      })),
    };
    put('pods', pod, type);
  }

  function podOf(job: ApiObject): ApiObject | undefined {
    const uid = job.metadata.uid;
    return [...kinds.pods.values()].findLast(
      ({ metadata, status }) =>
        metadata.labels['batch.kubernetes.io/controller-uid'] === uid &&
        (status as { phase?: string }).phase === 'Running',
    );
  }

  function print(log: ContainerLog): void {
    const text = `${log.container} ${log.lines.length} ${'x'.repeat(chance.between(0, 40))}\n`;
    time += chance.yes(0.2) ? chance.between(0, 2_500) : chance.between(0, 3);
    log.lines.push({ at: time, text });
    log.text += text;
  }

  function endPod(job: ApiObject, pod: ApiObject, exitCode: number): void {
    for (const log of logsOf(pod)) log.ended = true;
    setPodStatus(pod, 'MODIFIED', exitCode);
    const before = job.status as { failed?: number };
    if (exitCode !== 0 && (before.failed ?? 0) < 2) {
      job.status = { ...before, failed: (before.failed ?? 0) + 1, active: 0, ready: 0 };
      put('jobs', job, 'MODIFIED');
      return;
    }
    const at = formatTime(time);
    const type = exitCode === 0 ? 'Complete' : 'Failed';
    job.status = {
      ...before,
      active: 0,
      ready: 0,
      completionTime: at,
      conditions: [{ type, status: 'True', lastTransitionTime: at }],
    };
    actualJobs.set(job.metadata.uid, { phase: exitCode === 0 ? 'succeeded' : 'failed', gone: false });
    put('jobs', job, 'MODIFIED');
  }

  function removeJob(job: ApiObject): void {
    const { uid } = job.metadata;
    const was = actualJobs.get(uid);
    const isOver = was?.phase === 'succeeded' || was?.phase === 'failed';
    actualJobs.set(uid, { phase: isOver ? (was?.phase ?? '') : 'cancelled', gone: true });
    for (const pod of kinds.pods.values()) {
      if (pod.metadata.labels['batch.kubernetes.io/controller-uid'] !== uid) continue;
      for (const log of logsOf(pod)) log.ended = log.removed = true;
      put('pods', pod, 'DELETED');
    }
    put('jobs', job, 'DELETED');
  }

  function step(): void {
    time += chance.between(1, 700);
    for (const job of kinds.jobs.values()) {
      const state = actualJobs.get(job.metadata.uid)?.phase;
      if (state === 'succeeded' || state === 'failed') {
        if (!areFaultsStopped && chance.yes(0.02)) removeJob(job);
        continue;
      }
      const pod = podOf(job);
      if (pod === undefined) {
        createPod(job);
        continue;
      }
      for (const log of logsOf(pod)) for (let left = chance.between(0, 6); left > 0; left -= 1) print(log);
      notifyListeners();
      if (chance.yes(areFaultsStopped ? 0.5 : 0.08)) endPod(job, pod, chance.yes(0.4) ? 1 : 0);
      else if (!areFaultsStopped && chance.yes(0.01)) removeJob(job);
    }
  }

  // ------------------------------------------------------------------------------------------ requests

  const refusal = (code: number, reason: string, more: object = {}): string =>
    JSON.stringify({ kind: 'Status', code, reason, message: reason, ...more });

  function answer(to: ServerResponse, code: number, text: string): void {
    to.writeHead(code, { 'content-type': 'application/json' });
    to.end(text);
  }

  function list(to: ServerResponse, kind: 'jobs' | 'pods', query: URLSearchParams): void {
    const token = query.get('continue');
    const [from = '', afterName = ''] = (token ?? '').split(':');
    if (token !== null && from !== 'now' && (Number(from) < oldest || (!areFaultsStopped && chance.yes(0.2)))) {
      answer(to, 410, refusal(410, 'Expired', { metadata: { continue: `now:${afterName}` } }));
      return;
    }
    const job = /^job-name=(.+)$/.exec(query.get('labelSelector') ?? '')?.[1];
    const all = [...kinds[kind].values()]
      .filter(({ metadata }) => job === undefined || metadata.labels['batch.kubernetes.io/job-name'] === job)
      .filter(({ metadata }) => metadata.name > afterName)
      .toSorted((one, other) => (one.metadata.name < other.metadata.name ? -1 : 1));
    const items = all.slice(0, 2);
    const resourceVersion = String(token === null || from === 'now' ? version : from);
    const next = all.length > 2 ? { continue: `${resourceVersion}:${items.at(-1)?.metadata.name}` } : {};
    answer(to, 200, JSON.stringify({ items, metadata: { resourceVersion, ...next } }));
  }

  function watch(to: ServerResponse, kind: 'jobs' | 'pods', query: URLSearchParams): void {
    let at = Number(query.get('resourceVersion'));
    to.writeHead(200);
    to.flushHeaders();
    const next = (): void => {
      if (at < oldest) {
        to.end(`${JSON.stringify({ type: 'ERROR', object: JSON.parse(refusal(410, 'Expired')) as object })}\n`);
        return;
      }
      for (const entry of history) {
        if (entry.version <= at || to.destroyed) continue;
        at = entry.version;
        if (entry.kind !== kind) continue;
        const line = `{"type":"${entry.type}","object":${entry.object}}\n`;
        if (!areFaultsStopped && chance.yes(0.05)) {
          cut(to, line.slice(0, chance.between(1, line.length)));
          return;
        }
        to.write(!areFaultsStopped && chance.yes(0.1) ? line + line : line);
      }
      if (!areFaultsStopped && chance.yes(0.02)) to.end();
    };
    keepOpen(to, next);
  }

  function log(to: ServerResponse, pod: string, query: URLSearchParams): void {
    const one = logs.find((found) => found.pod === pod && found.container === query.get('container'));
    if (one === undefined || one.removed) {
      answer(to, 404, refusal(404, 'NotFound'));
      return;
    }
    const since = query.get('sinceTime');
    const from = since === null ? 0 : Date.parse(since);
    let at = 0;
    to.writeHead(200);
    to.flushHeaders();
    const next = (): void => {
      for (; at < one.lines.length && !to.destroyed; at += 1) {
        const { at: lineTime, text } = one.lines[at] as { at: number; text: string };
        if (lineTime < from) continue;
        const line = `${formatLogTime(lineTime)} ${text}`;
        if (!areFaultsStopped && chance.yes(0.02)) {
          cut(to, line.slice(0, chance.between(0, line.length)));
          return;
        }
        to.write(line);
      }
      if (one.ended || query.get('follow') !== 'true') to.end();
    };
    keepOpen(to, next);
  }

  const broken = new WeakSet<ServerResponse>();

  /** Ends this connection. */
  function cut(to: ServerResponse, text: string): void {
    broken.add(to);
    to.write(text, () => to.destroy());
  }

  function keepOpen(to: ServerResponse, next: () => void): void {
    const call = (): void => {
      if (to.destroyed || to.writableEnded || broken.has(to)) listeners.delete(call);
      else next();
    };
    listeners.add(call);
    to.on('close', () => listeners.delete(call));
    call();
  }

  const server = createServer((from: IncomingMessage, to) => {
    const { pathname, searchParams: query } = new URL(from.url ?? '', 'http://x');
    const isAway = Date.now() < awayUntil;
    if (isAway || (!areFaultsStopped && chance.yes(0.03))) {
      from.socket.destroy();
      return;
    }
    if (!areFaultsStopped && chance.yes(0.03)) {
      answer(to, 503, refusal(503, 'Busy'));
      return;
    }
    const [, kind = '', name, part] = /\/(jobs|pods|events)(?:\/([^/]+))?(?:\/(log))?$/.exec(pathname) ?? [];
    if (kind === 'events') answer(to, 200, '{"items":[]}');
    else if (part === 'log') log(to, name ?? '', query);
    else if (name !== undefined) {
      const found = [...kinds.pods.values()].find(({ metadata }) => metadata.name === name);
      if (found === undefined) answer(to, 404, refusal(404, 'NotFound'));
      else answer(to, 200, JSON.stringify(found));
    } else if (query.get('watch') === 'true') watch(to, kind === 'jobs' ? 'jobs' : 'pods', query);
    else list(to, kind === 'jobs' ? 'jobs' : 'pods', query);
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    printed: logs,
    actualJobs,
    createJob(name) {
      count += 1;
      const job = apiObject(name, `job-${count}`, labelsOf(name));
      job.spec = { template: { spec: { containers: [{ name: 'main', image: 'alpine' }] } } };
      actualJobs.set(job.metadata.uid, { phase: 'queued', gone: false });
      put('jobs', job, 'ADDED');
      return job.metadata.uid;
    },
    step,
    stopFaults() {
      areFaultsStopped = true;
      awayUntil = 0;
    },
    restart(forMs) {
      awayUntil = Date.now() + forMs;
      for (const socket of sockets) socket.destroy();
    },
    compact() {
      oldest = version;
      history.splice(0);
    },
    removeAll() {
      for (const job of kinds.jobs.values()) removeJob(job);
    },
    get isFinished() {
      return [...actualJobs.values()].every(({ phase, gone }) => gone || phase === 'succeeded' || phase === 'failed');
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
