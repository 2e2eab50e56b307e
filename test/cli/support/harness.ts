/**
 * Fake services for tests of the terminal: jobs as plain data in, text and exit code out. Only the terminal's own code
 * is real; test/real runs the whole program.
 */
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { JobActivity } from '../../../src/app/activity.ts';
import type {
  AllocationView,
  AttemptView,
  CommandOptions,
  CommandResult,
  ConfirmationNeeded,
  ConfirmationRequired,
  Client,
  JobRow,
  JobView,
  HeldEvents,
  RecipientInUse,
  MessageView,
  LogRef,
  Plan,
  Why,
  MetricsStep,
  MetricsView,
} from '../../../src/app/client.ts';
import type { ClusterSubmissions } from '../../../src/app/cluster/commands.ts';
import type { Cluster } from '../../../src/app/cluster/cluster.ts';
import { clusterSettingsOf } from '../../../src/app/cluster/settings.ts';
import { exitCode, JobmanError } from '../../../src/app/errors.ts';
import type { Io, Services, Stream } from '../../../src/app/services.ts';
import { hostsOf } from '../../../src/app/hosts.ts';
import { defaultSettings } from '../../../src/app/settings.ts';
import { run } from '../../support/output-schema.ts';
import { answerEach, type ActionAnswer } from '../../../src/core/policy/permissions.ts';
import type { Verb } from '../../../src/core/decide/commands.ts';
import type { WorkerId } from '../../../src/core/model/spec.ts';
import type { Event } from '../../../src/core/model/event.ts';
import type { PoolQueue } from '../../../src/core/policy/admission.ts';
import { isFinishedPhase } from '../../../src/core/decide/phase.ts';
import type { TpuRow } from '../../../src/app/tpus.ts';
import type { DiffSide } from '../../../src/app/diff.ts';
import type { ZoneRow } from '../../../src/app/zones.ts';
import { costReport, jobCost } from '../../../src/reports/cost.ts';
import type { UsageRow } from '../../../src/reports/usage.ts';
import { recipientViews } from '../../../src/app/notifications/recipients.ts';
import { overJson } from '../../contract/over-json.ts';
import { aMember, localSpec, observedTpu } from '../../support/builders.ts';

export interface Terminal {
  readonly columns: number;
  readonly rows: number;
}

/** A log whose bytes are in a file of the test. */
export interface FakeLog extends LogRef {
  readonly path: string;
}

export function fakeLog(path: string, worker: WorkerId | null = 0, attempt = 1, job = '000042'): FakeLog {
  const id = `attempt_${attempt}/command_worker_${worker}`;
  return { job, id, worker, attempt, step: null, size: 0, changedAt: now, isComplete: true, path };
}

/** All logs in the folder of a job. */
function logsBelow(folder: string, job: string): readonly FakeLog[] {
  const names = existsSync(folder) ? globSync('**/*.log', { cwd: folder }) : [];
  return names.map((name) => ({ ...fakeLog(join(folder, name), 0, 1, job), id: name.replace(/\.log$/, '') }));
}

export interface CliHarnessOptions {
  readonly jobs?: readonly JobView[];
  readonly events?: Readonly<Record<string, readonly Event[]>>;
  readonly logs?: readonly FakeLog[];
  readonly metrics?: MetricsView;
  /** Come before the metrics. */
  readonly readMetrics?: () => AsyncIterable<MetricsStep>;
  readonly more?: number;
  readonly notes?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Both outputs are this terminal; without it, neither is one. */
  readonly terminal?: Terminal;
  /** Typed input, on a terminal. */
  readonly input?: readonly string[];
  /** The result of a command; by default every command is done. */
  /** The permission for every command; allowed without it. */
  readonly action?: ActionAnswer;
  readonly answerCommand?: (id: string, verb: Verb, given: CommandOptions) => CommandResult;
  readonly plan?: Plan;
  /** The result of the grants for every request; by default they cover it. */
  readonly confirmation?: ConfirmationRequired;
  readonly zones?: readonly ZoneRow[];
  readonly activity?: readonly JobActivity[];
  readonly messages?: readonly MessageView[];
  readonly heldEvents?: readonly HeldEvents[];
  readonly recipientsInUse?: readonly RecipientInUse[];
  /** The usage ledger. */
  readonly usage?: readonly UsageRow[];
  readonly passes?: Client['passes'];
  /** By default a side without values. */
  readonly diffSide?: (id: string, attempt: number | null) => DiffSide;
  readonly cwd?: string;
  readonly userHome?: string;
  readonly now?: () => number;
  /** The archive of a home from which jobs were submitted to a cluster. */
  readonly archive?: Partial<Client>;
  /** Methods and parts that the test brings itself. */
  readonly client?: Partial<Client>;
  readonly services?: Partial<Services>;
}

export interface CliHarness {
  readonly services: Services;
  /** The requested commands in order: `stop 000042`. */
  readonly commands: string[];
  readonly out: () => string;
  readonly err: () => string;
  /** Replaces what the client answers from now on, as a controller would. */
  setJobs(
    jobs: readonly JobView[],
    events?: Readonly<Record<string, readonly Event[]>>,
    logs?: readonly FakeLog[],
  ): void;
  resize(terminal: Terminal): void;
  signal(): void;
  /** Types on the terminal; false if no single keys are read. */
  typeKeys(keys: string): boolean;
  /** Ends the program like an unhandled signal; false if nothing had to be restored. */
  terminate(): boolean;
  /** The reader of standard output goes away. */
  closeOutput(): void;
}

/** The time of all tests: 2026-11-21T08:20:14Z. */
export const now = Date.UTC(2026, 10, 21, 8, 20, 14);

/** Of a home from which nothing was submitted to a cluster. */
export const noSubmissions: ClusterSubmissions = {
  isUsed: false,
  registerContext: async () => 'abc123',
  preload: async () => undefined,
  recordSubmitted: async () => null,
  close: async () => undefined,
  wake: async () => null,
};

function hostQueueOf(jobs: readonly JobView[]): PoolQueue {
  const own = jobs.filter(({ hosts, phase }) => hosts.includes('localhost') && !isFinishedPhase(phase));
  const waiting = own.filter(({ phase }) => phase === 'queued').map(({ id }) => id);
  const usedBy = own.flatMap(({ id, phase }) => (phase === 'queued' ? [] : [id]));
  return { pool: 'localhost', slots: 4, slotsUsed: usedBy.length, usedBy, waiting: waiting.toReversed() };
}

export function createCliHarness(options: CliHarnessOptions = {}): CliHarness {
  let { jobs = [], events = {}, logs = [], terminal } = options;
  let changes = 1;
  const commands: string[] = [];
  const resizes = new Set<() => void>();
  const signals = new Set<(signal: 'SIGINT') => void>();
  const keyListeners = new Set<(typed: string) => void>();
  const exitHandlers = new Set<() => void>();
  const input = [...(options.input ?? [])];
  let closed = false;
  const parts = { out: [] as string[], err: [] as string[] };
  const decoder = new TextDecoder();

  const stream = (name: 'out' | 'err'): Stream => ({
    write: (text) => void parts[name].push(typeof text === 'string' ? text : decoder.decode(text)),
    flush: async () => {},
    isTerminal: options.terminal !== undefined,
    size: () => terminal ?? { columns: 80, rows: 24 },
    watchReader: () => () => undefined,
    onResize(call) {
      resizes.add(call);
      return () => void resizes.delete(call);
    },
    get closed() {
      return name === 'out' && closed;
    },
  });
  const io: Io = {
    stdout: stream('out'),
    stderr: stream('err'),
    stdin: {
      isTerminal: options.terminal !== undefined,
      line: async () => input.shift() ?? null,
      async *bytes() {
        for (const line of input) yield Buffer.from(`${line}\n`);
      },
      keys(call) {
        keyListeners.add(call);
        return () => void keyListeners.delete(call);
      },
      raw: async () => () => undefined,
    },
    env: { LANG: 'C.UTF-8', TERM: 'xterm', ...options.env },
    cwd: options.cwd ?? '/',
    user: 'alice',
    uid: 1_000,
    userHome: options.userHome ?? '/home/alice',
    pid: 1,
    launcher: ['jobman'],
    version: '1.2.3',
    onSignal(call) {
      signals.add(call);
      return () => void signals.delete(call);
    },
    onUncaught: () => () => undefined,
    atExit(call) {
      exitHandlers.add(call);
      return () => void exitHandlers.delete(call);
    },
    now: options.now ?? (() => now),
    resourceUsage: () => ({ residentBytes: 0, heapBytes: 0, cpuSeconds: 0 }),
  };

  const find = (ref: string): JobView => {
    const id = /^\d{1,6}$/.test(ref) ? ref.padStart(6, '0') : undefined;
    const found = jobs.filter((job) => (id === undefined ? job.name === ref : job.id === id));
    const [job] = found;
    if (job === undefined) throw new JobmanError(`There is no job ${ref}.`, exitCode.notFound);
    return job;
  };
  const confirmationFor = (confirmed: readonly string[] = []): ConfirmationNeeded | undefined => {
    const reason = options.confirmation;
    if (reason === undefined || (reason.token !== null && confirmed.includes(reason.token))) return undefined;
    return { reasons: [reason], notice: null };
  };
  const unavailable = (what: string) => () => Promise.reject(new Error(`this test has no ${what}`));
  const client: Client = {
    whoAmI: async () => aMember('alice'),
    checkLabCommand: async () => undefined,
    actions: async () => answerEach(() => options.action ?? { answer: 'allow' }),
    async create({ spec, confirmed, onBehalfOf = 'alice' }) {
      const confirmation = confirmationFor(confirmed);
      if (confirmation !== undefined) return { kind: 'confirmation_required', confirmation };
      commands.push(`create ${spec.name} for ${onBehalfOf}`);
      const row = jobs[0] ?? jobView({ name: spec.name });
      return { kind: 'created', id: row.id, row, warnings: [] };
    },
    async plan() {
      if (options.plan === undefined) throw new Error('this test brought no plan');
      const { confirmation } = options;
      return confirmation === undefined ? options.plan : { ...options.plan, reasons: [confirmation] };
    },
    resolveName: async (name) => {
      const named = jobs.find((job) => job.name === name);
      if (named === undefined) throw new JobmanError(`There is no job named "${name}".`, exitCode.notFound);
      return named.id;
    },
    async list({ name, phases, user, own }) {
      const rows = jobs.filter(
        (job) =>
          (name === undefined || job.name === name) &&
          (phases === undefined || phases.includes(job.phase)) &&
          (user === undefined || job.owner === user) &&
          (own !== true || job.owner === 'alice'),
      );
      return { rows: rows.map(rowOf), more: options.more ?? 0, notes: options.notes ?? [] };
    },
    show: async (ref) => find(ref),
    activity: async () => options.activity ?? [],
    usage: async () => options.usage ?? [],
    diffSide: async (ref, attempt) => {
      const { id, name } = find(ref);
      return options.diffSide?.(id, attempt) ?? { job: id, name, attempt, values: {}, files: null };
    },
    cost: async ({ jobs: wanted, user, name, ...query }) => {
      const rows = (options.usage ?? []).filter(
        (row) =>
          (user === undefined || row.owner === user) &&
          (name === undefined || row.jobName === name) &&
          (wanted?.includes(row.uid ?? row.job) ?? true),
      );
      return costReport(rows, query, io.now());
    },
    secrets: async () => [],
    users: async () => [],
    addUser: unavailable('users'),
    changeUser: unavailable('users'),
    tokens: unavailable('tokens'),
    createToken: unavailable('tokens'),
    revokeToken: unavailable('tokens'),
    audit: unavailable('audit log'),
    setSecret: unavailable('secrets'),
    replaceJobSecret: unavailable('secrets'),
    deleteSecret: unavailable('secrets'),
    hosts: async () => hostsOf(await services.settings()),
    ownPrices: async () => (await services.settings()).prices,
    settings: unavailable('settings of a server'),
    hostQueues: async () => [hostQueueOf(jobs)],
    async queue() {
      const isTpu = ({ backend }: JobView): number => Number(backend === 'tpu');
      const queued = jobs.filter(({ phase }) => phase === 'queued').toReversed();
      const waiting = queued.toSorted((one, other) => isTpu(one) - isTpu(other));
      const rows = waiting.map((row) => ({
        ...row,
        requests: row.accelerator ?? '1 slot',
        blockedBy: { kind: 'capacity' as const, object: null, untilAt: null },
        sentence: null,
        queuePosition: null,
        waitsSinceAt: row.phaseStartedAt,
        typicalWait: null,
        nextAt: null,
      }));
      return { rows, more: 0, hosts: [hostQueueOf(jobs)] };
    },
    zones: async ({ project }) =>
      (options.zones ?? []).filter((row) => project === undefined || row.project === project),
    why: async (ref) => find(ref).why,
    async *metrics(ref) {
      if (options.readMetrics !== undefined) yield* options.readMetrics();
      yield { kind: 'result', metrics: options.metrics ?? noMetrics(find(ref)) };
    },
    async *metricPoints(ref) {
      const { id, series, attempts } = options.metrics ?? noMetrics(find(ref));
      for (const { name, points } of series)
        for (const point of points) yield { job: id, metric: name, worker: attempts[0]?.worker ?? 0, ...point };
    },
    events: async (ref, after) =>
      (events[find(ref).id] ?? []).map((event, index) => ({ seq: index + 1, event })).filter(({ seq }) => seq > after),
    passes: options.passes ?? (async (ref) => ({ ...find(ref), passes: [], readable: 0, unreadable: 0 })),
    async sendCommand(ref, verb, commandOptions) {
      const { id, name } = find(ref);
      const isStart = verb === 'start' || verb === 'resume' || verb === 'rerun';
      const confirmation = isStart ? confirmationFor(commandOptions.confirmed) : undefined;
      if (confirmation !== undefined) return { id, ok: false, message: 'unconfirmed', exitCode: 4, confirmation };
      const callParts = [
        verb,
        id,
        commandOptions.release === true ? 'release' : '',
        commandOptions.force === true ? 'force' : '',
      ];
      commands.push(callParts.filter(Boolean).join(' '));
      return (
        options.answerCommand?.(id, verb, commandOptions) ?? {
          id,
          ok: true,
          message: `${id} ${name}: ${verb}`,
          exitCode: 0,
        }
      );
    },
    logs: async (ref, { worker, attempt, all }) => {
      const { id, folder } = find(ref);
      const newest = Math.max(...logs.map((log) => log.attempt ?? 0));
      const wanted = logs.filter(
        (log) =>
          existsSync(log.path) &&
          (worker === undefined || log.worker === worker) &&
          (log.attempt === null || log.attempt === (attempt ?? newest)),
      );
      return (all === true ? logsBelow(join(folder.path, 'logs'), id) : wanted).map((log) => ({
        ...log,
        size: statSync(log.path).size,
      }));
    },
    async *searchLogs() {
      yield { kind: 'result', line: null };
    },
    async *readLogs(ref, parts) {
      for (const { id, from, maxBytes } of parts) yield await this.readLog(ref, id, from, maxBytes);
    },
    async readLog(ref, id, from, maxBytes) {
      const { folder, id: job } = find(ref);
      const { path } =
        [...logs, ...logsBelow(join(folder.path, 'logs'), job)].find((log) => log.id === id) ?? fakeLog('');
      const content = readFileSync(path);
      const bytes = content.subarray(from, from + maxBytes);
      return { bytes, from, end: content.length, isComplete: from + bytes.length >= content.length };
    },
    async clean(ref) {
      commands.push(`clean ${ref}`);
      return { id: find(ref).id, ok: true, message: 'cleaned', exitCode: 0 };
    },
    listCleanable: async () => jobs.filter(({ phase }) => isFinishedPhase(phase)),
    async manifest(ref) {
      const file = join(find(ref).folder.path, 'config.yaml');
      return existsSync(file) ? readFileSync(file, 'utf8') : null;
    },
    async workdirChanges(ref, copy) {
      const file = join(find(ref).folder.path, `workdir/${copy}/changes.diff`);
      return existsSync(file) ? readFileSync(file, 'utf8') : null;
    },
    readWorkdirFile: unavailable('files of a working directory'),
    workerTicket: unavailable('workers'),
    workerFigures: unavailable('workers'),
    async *runStep() {},
    billing: unavailable('clouds'),
    images: unavailable('registry'),
    image: unavailable('registry'),
    checkLogin: async () => undefined,
    bucketStatuses: async (_project, buckets) => ({
      statuses: buckets.map(() => ({ kind: 'unlocated' })),
      notice: null,
    }),
    tpus: unavailable('clouds'),
    forgetProject: unavailable('projects'),
    quota: unavailable('clouds'),
    knownQuota: async () => [],
    quotaWarnings: async () => [],
    async *storage() {},
    async *checkpoints() {},
    orphans: unavailable('orphans'),
    observeOrphans: unavailable('orphans'),
    releaseOrphan: unavailable('orphans'),
    forgetOrphan: unavailable('orphans'),
    readStepFile: unavailable('files of setup steps'),
    putBlobs: async () => undefined,
    readManifest: () => Promise.reject(new Error('commands read manifests themselves')),
    hasBlobs: async (digests) => digests,
    messages: async (limit) => (options.messages ?? []).slice(0, limit),
    heldEvents: async () => options.heldEvents ?? [],
    recipients: async () => recipientViews((await services.settings()).notify, new Map()),
    testRecipient: unavailable('channels'),
    openSecrets: async () => [],
    recipientsInUse: async () => options.recipientsInUse ?? [],
    async dropEvents(recipient) {
      return options.recipientsInUse?.find((one) => one.recipient === recipient)?.events ?? 0;
    },
    async *changesSince() {
      for (let seen = 0; ; await new Promise((resolve) => setTimeout(resolve, 20).unref())) {
        if (seen !== changes) yield { kind: 'jobs', cursor: String(changes) };
        seen = changes;
      }
    },
    installationId: async () => 'abc123',
    isControllerRunning: async () => true,
    wake: async () => {
      commands.push('wake');
      return null;
    },
    close: async () => {},
    archivedJobs: async () => [],
    archivedJob: async () => null,
    archivedEvents: async () => [],
    archivedLogs: async () => [],
    lastArchivedLines: async () => [],
    async *readArchivedLog() {},
    recordClusterDeletion: async () => undefined,
    hideArchivedJob: async () => undefined,
    removeArchivedJob: async () => undefined,
    ...options.archive,
    ...options.client,
  };
  const services: Services = {
    io,
    home: '/home/alice/.jobman',
    server: async () => null,
    useServer: () => undefined,
    contexts: unavailable('contexts'),
    dashboard: unavailable('dashboard'),
    serve: unavailable('server'),
    backups: unavailable('backups'),
    secretKeys: async () => ({
      values: async () => [],
      encrypt: unavailable('secret keys'),
      rotate: unavailable('secret keys'),
    }),
    settings: async () => defaultSettings(4),
    settingsFiles: () => ({ home: services.home }),
    unreadMistake: async () => null,
    useSettings: () => undefined,
    clusterSettings: async () => ({ settings: clusterSettingsOf(), sources: new Map() }),
    cluster: unavailable('cluster'),
    isClusterConfigured: async () => false,
    clusterSubmissions: async () => ({ ...noSubmissions, isUsed: options.archive !== undefined }),
    newerVersion: async () => null,
    checkVersion: unavailable('newer version'),
    client: async () => overJson(client),
    // A running controller, which is all that reading commands need.
    controller: async () => ({
      status: async () => ({
        running: true,
        pid: 7,
        version: '0.1.0',
        isServer: false,
        isOutdated: false,
        startedAt: 0,
        otherDatabase: null,
        silentSinceAt: null,
        waitsFor: null,
        logFile: '/dev/null',
      }),
      start: unavailable('controller'),
      stop: unavailable('controller'),
      held: async () => null,
      reload: async () => undefined,
      run: unavailable('controller'),
      install: unavailable('controller'),
      uninstall: unavailable('controller'),
    }),
    emulator: unavailable('emulator'),
    doctor: async () => [],
    checkWorkdir: async () => undefined,
    namedSecret: () => Promise.reject(new Error('this test has no secrets')),
    copyWorkdir: () => Promise.reject(new Error('this test has no working directories')),
    workers: async (ref) => (find(ref), unavailable('workers')()),
    onTerminal: unavailable('terminal'),
    ...options.services,
  };
  return {
    services,
    commands,
    out: () => parts.out.join(''),
    err: () => parts.err.join(''),
    setJobs(nextJobs, nextEvents, nextLogs) {
      jobs = nextJobs;
      events = nextEvents ?? events;
      logs = nextLogs ?? logs;
      changes += 1;
    },
    resize(next) {
      terminal = next;
      for (const call of resizes) call();
    },
    signal: () => signals.forEach((call) => call('SIGINT')),
    typeKeys(keys) {
      for (const call of keyListeners) call(keys);
      return keyListeners.size > 0;
    },
    terminate() {
      const calls = [...exitHandlers];
      for (const call of calls) call();
      return calls.length > 0;
    },
    closeOutput() {
      closed = true;
    },
  };
}

function noMetrics({ id, name }: JobView): MetricsView {
  const dashboards = { wandb: null, tensorboard: null };
  return {
    id,
    name,
    attempts: [],
    names: [],
    series: [],
    throughput: null,
    slowWorker: null,
    leftOut: null,
    dashboards,
  };
}

/** One command, from arguments to text and exit code. */
export async function jobman(
  argv: readonly string[],
  options: CliHarnessOptions = {},
): Promise<{
  readonly code: number;
  readonly out: string;
  readonly err: string;
  readonly commands: readonly string[];
}> {
  const harness = createCliHarness(options);
  const code = await run(argv, harness.services);
  return { code, out: harness.out(), err: harness.err(), commands: harness.commands };
}

/** A job that runs, with whatever the test wants to be different. */
const aRow = {
  id: '000042',
  name: 'vit-l16-3e4',
  owner: 'alice',
  backend: 'tpu',
  accelerator: 'v5litepod-16',
  pricing: 'spot',
  zone: 'us-west4-a',
  hosts: [],
  worker0Address: '10.164.0.7',
  phase: 'running',
  heldCapacity: null,
  message: 'running for 2h, 2 preemptions',
  desired: 'running',
  stage: 2,
  attempt: 3,
  attemptEnds: ['preempted', 'preempted', null],
  attention: null,
  tags: [],
  overrides: [],
  createdAt: now - 14 * 3_600_000,
  phaseStartedAt: now - 125 * 60_000,
  pricePerHourUsd: null,
  simulated: false,
} satisfies JobRow;

/** Without the fields that only `show` has. */
function rowOf(view: JobView): JobRow {
  const fields = Object.keys(aRow);
  return Object.fromEntries(Object.entries(view).filter(([field]) => fields.includes(field))) as unknown as JobRow;
}

export function jobView(overrides: Partial<JobView> = {}): JobView {
  const { id } = { ...aRow, ...overrides };
  return {
    ...aRow,
    id,
    revision: 1,
    why: aWhy({ id, message: '4 of 4 workers alive.', next: 'check in 16 s' }),
    progress: null,
    throughput: null,
    budgets: [],
    slowWorker: null,
    leftOut: null,
    dashboards: { wandb: null, tensorboard: null },
    checkpoint: null,
    checkpointDir: null,
    checkpointUrl: null,
    resumedFrom: null,
    workdirCopies: [],
    ifPreempted: null,
    cost: jobCost([], now),
    attempts: [],
    allocations: [],
    workers: [],
    spec: localSpec({
      capacity: { kind: 'hosts', ownership: 'persistent', hosts: ['localhost'] },
      recovery: { ...localSpec().recovery, preset: 'pre' },
    }),
    hasFiles: true,
    folder: { host: hostname(), path: `/home/alice/.jobman/jobs/alice/${id}` },
    ...overrides,
  };
}

/** A why with what is given, and nothing else to say. */
export function aWhy(given: Partial<Why>): Why {
  return {
    id: '000042',
    backend: 'tpu',
    phase: 'running',
    message: '',
    evidence: null,
    logTail: [],
    rule: null,
    typicalWait: null,
    next: '',
    nextAt: null,
    nextCheckAt: null,
    situation: null,
    ...given,
  };
}

/** A try at the command that was created now, with whatever the test wants to be different. */
export function attemptView(overrides: Partial<AttemptView> = {}): AttemptView {
  const { attempt = 1 } = overrides;
  return {
    attempt,
    stage: attempt - 1,
    startMode: attempt === 1 ? 'fresh' : 'resume',
    startedBy: attempt === 1 ? 'owner' : 'rule',
    commandOnly: false,
    allocation: attempt,
    workers: [0],
    createdAt: now,
    notBeforeAt: now,
    startedAt: null,
    endingAt: null,
    endedAt: null,
    reason: null,
    evidence: null,
    exits: [],
    workdirCopy: null,
    ...overrides,
  };
}

/** Capacity that was requested now. */
export function allocationView(overrides: Partial<AllocationView> = {}): AllocationView {
  const { allocation = 1 } = overrides;
  return {
    allocation,
    name: `vit-000042-${allocation}`,
    ownership: 'ephemeral',
    state: 'waiting',
    message: null,
    requestedAt: now,
    readyAt: null,
    releasedAt: null,
    goneAt: null,
    workers: [],
    ...overrides,
  };
}

/** A TPU that is idle, of the job 000042. */
export function tpuRow(overrides: Partial<TpuRow> = {}): TpuRow {
  const hour = 3_600_000;
  return {
    ...observedTpu(overrides.name ?? 'vit-000042-1', { createdAt: now - 5 * hour }),
    state: 'READY',
    owner: { kind: 'job', id: '000042', name: 'vit', jobOwner: 'lab', owner: 'alice', isFinished: false },
    job: '000042',
    readyAt: now - 4 * hour,
    idleMs: 3 * hour,
    pricePerHourUsd: 7.68,
    idleCostUsd: 23.04,
    simulated: false,
    ...overrides,
  };
}

/** A cluster that can do what the test hands in. */
export function fakeCluster(parts: object): Cluster {
  const cluster = {
    context: () => ({ context: 'lab', server: 'https://lab', namespace: 'vision', user: 'alice' }),
    events: async () => [],
    close: async () => undefined,
    ...parts,
  };
  return cluster as object as Cluster;
}

/** The objects of an output with --json, one a line. */
export function jsonLines<T>(out: string): readonly T[] {
  const lines = out.trim().split('\n');
  return lines.map((line) => JSON.parse(line) as T);
}
