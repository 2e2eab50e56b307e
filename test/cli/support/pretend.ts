/**
 * A pretend rest of the program for tests of the terminal: jobs as plain data in, text and exit code out. Only the
 * terminal's own part is real, which is what these tests are about; the whole program runs in the front-door tests.
 */
import type {
  AllocationView,
  AttemptView,
  AskAnswer,
  Beyond,
  Client,
  JobRow,
  JobView,
  LogFile,
  Plan,
  Why,
} from '../../../src/app/client.ts';
import type { ClusterKeeper } from '../../../src/app/cluster/client.ts';
import type { Cluster } from '../../../src/app/cluster/cluster.ts';
import { mergedSettings } from '../../../src/app/cluster/settings.ts';
import { exitCode, JobmanError } from '../../../src/app/errors.ts';
import type { Io, Services, Stream } from '../../../src/app/services.ts';
import { defaultSettings } from '../../../src/app/settings.ts';
import { run } from '../../../src/cli/run.ts';
import type { Verb } from '../../../src/core/commands.ts';
import type { Event } from '../../../src/core/decision.ts';
import type { TpuRow } from '../../../src/app/tpus.ts';
import type { ZoneRow } from '../../../src/app/zones.ts';
import { localSpec } from '../../support/builders.ts';

export interface Terminal {
  readonly columns: number;
  readonly rows: number;
}

export interface PretendOptions {
  readonly jobs?: readonly JobView[];
  readonly events?: Readonly<Record<string, readonly Event[]>>;
  readonly logs?: readonly LogFile[];
  readonly more?: number;
  readonly notes?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Both outputs are this terminal; without it, neither is one. */
  readonly terminal?: Terminal;
  /** What is typed, where there is a terminal. */
  readonly input?: readonly string[];
  /** What an ask is answered; without it every word is done. */
  readonly answer?: (id: string, verb: Verb) => AskAnswer;
  readonly plan?: Plan;
  /** What the grants say of everything that is asked for; without it they cover it. */
  readonly beyond?: Beyond;
  readonly zones?: readonly ZoneRow[];
  readonly cwd?: string;
  readonly now?: () => number;
  /** Parts that the test brings itself. */
  readonly services?: Partial<Services>;
}

export interface Pretend {
  readonly services: Services;
  /** What was asked for, in order: `stop 000042`. */
  readonly asked: string[];
  readonly out: () => string;
  readonly err: () => string;
  /** Replaces what the client answers from now on, as a controller would. */
  set(jobs: readonly JobView[], events?: Readonly<Record<string, readonly Event[]>>, logs?: readonly LogFile[]): void;
  resize(terminal: Terminal): void;
  signal(): void;
  /** Types on the terminal; false when nobody listens to single keys. */
  type(keys: string): boolean;
  /** Ends the program as a signal that nobody listens to does; false when nothing had to be put right. */
  kill(): boolean;
  /** The reader of standard output goes away. */
  closeOutput(): void;
}

/** A moment that all tests share: 2026-11-21T08:20:14Z. */
export const now = Date.UTC(2026, 10, 21, 8, 20, 14);

/** A home from which nothing was submitted to a cluster. */
export const nothingKept: ClusterKeeper = {
  isUsed: false,
  begin: async () => 'abc123',
  prepare: async () => undefined,
  submitted: async () => null,
  close: async () => undefined,
  wake: async () => null,
  jobs: async () => [],
  job: async () => undefined,
  moments: async () => [],
  logs: async () => [],
  deleted: async () => undefined,
  hide: async () => undefined,
  drop: async () => undefined,
};

export function pretend(options: PretendOptions = {}): Pretend {
  let { jobs = [], events = {}, logs = [], terminal } = options;
  let changes = 1;
  const asked: string[] = [];
  const resizes = new Set<() => void>();
  const signals = new Set<(signal: 'SIGINT') => void>();
  const keyboards = new Set<(typed: string) => void>();
  const endings = new Set<() => void>();
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
        keyboards.add(call);
        return () => void keyboards.delete(call);
      },
      raw: async () => () => undefined,
    },
    env: { LANG: 'C.UTF-8', TERM: 'xterm', ...options.env },
    cwd: options.cwd ?? '/',
    user: 'alice',
    userHome: '/home/alice',
    pid: 1,
    launcher: ['jobman'],
    version: '1.2.3',
    onSignal(call) {
      signals.add(call);
      return () => void signals.delete(call);
    },
    atExit(call) {
      endings.add(call);
      return () => void endings.delete(call);
    },
    now: options.now ?? (() => now),
  };

  const find = (ref: string): JobView => {
    const id = /^\d{1,6}$/.test(ref) ? ref.padStart(6, '0') : undefined;
    const found = jobs.filter((job) => (id === undefined ? job.name === ref : job.id === id));
    const [job] = found;
    if (job === undefined) throw new JobmanError(`There is no job ${ref}.`, exitCode.notFound);
    return job;
  };
  const absent = (what: string) => () => Promise.reject(new Error(`this test has no ${what}`));
  const client: Client = {
    async create({ spec, owner }) {
      asked.push(`create ${spec.name} for ${owner}`);
      const row = jobs[0] ?? view({ name: spec.name });
      return { id: row.id, row, warnings: [] };
    },
    async plan() {
      if (options.plan === undefined) throw new Error('this test brought no plan');
      return options.plan;
    },
    beyond: async () => options.beyond ?? null,
    async list({ name, phases, owner }) {
      const rows = jobs.filter(
        (job) =>
          (name === undefined || job.name === name) &&
          (phases === undefined || phases.includes(job.phase)) &&
          (owner === undefined || job.user === owner),
      );
      return { rows, more: options.more ?? 0, notes: options.notes ?? [] };
    },
    show: async (ref) => find(ref),
    zones: async ({ project }) =>
      (options.zones ?? []).filter((row) => project === undefined || row.project === project),
    why: async (ref) => find(ref).why,
    events: async (ref, after) =>
      (events[find(ref).id] ?? []).map((event, index) => ({ seq: index + 1, event })).filter(({ seq }) => seq > after),
    async ask(ref, verb, asks) {
      const { id, name } = find(ref);
      const words = [verb, id, asks.release === true ? 'release' : '', asks.force === true ? 'force' : ''];
      asked.push(words.filter(Boolean).join(' '));
      return options.answer?.(id, verb) ?? { id, ok: true, message: `${id} ${name}: ${verb}`, code: 0 };
    },
    logs: async (ref, { worker, attempt }) => {
      find(ref);
      const newest = Math.max(...logs.map((file) => file.attempt ?? 0));
      return logs.filter(
        (file) =>
          (worker === undefined || file.worker === worker) &&
          (file.attempt === null || file.attempt === (attempt ?? newest)),
      );
    },
    async clean(ref) {
      asked.push(`clean ${ref ?? 'all'}`);
      return ref === null ? [] : [{ id: '000001', ok: true, message: 'cleaned', code: 0 }];
    },
    planStep: absent('setup steps'),
    recordStep: absent('setup steps'),
    changes: async () => changes,
    wake: async () => {
      asked.push('wake');
      return null;
    },
    close: async () => {},
  };
  const services: Services = {
    io,
    home: '/home/alice/.jobman',
    settings: async () => defaultSettings(4),
    settingsFiles: () => ({ home: services.home }),
    useSettings: () => undefined,
    clusterSettings: async () => ({ settings: mergedSettings([]), sources: new Map() }),
    installation: async () => 'abc123',
    checkLogin: async () => undefined,
    forgetProject: absent('projects'),
    cluster: absent('cluster'),
    usesCluster: async () => false,
    hasSubmitted: () => false,
    keeper: async () => nothingKept,
    images: absent('registry'),
    newerVersion: async () => null,
    lookForVersion: absent('newer version'),
    client: async () => client,
    // One that runs, which is all that a command which only looks asks for.
    controller: async () => ({
      status: async () => ({ running: true, pid: 7, version: '0.1.0', startedAt: 0, log: '/dev/null' }),
      start: absent('controller'),
      stop: absent('controller'),
      reload: async () => undefined,
      run: absent('controller'),
      install: absent('controller'),
      uninstall: absent('controller'),
    }),
    emulator: absent('emulator'),
    tpus: absent('clouds'),
    strays: absent('strays'),
    buckets: async () => ({ look: async () => ({ kind: 'unplaced' }) }),
    checkWorkdir: async () => undefined,
    workers: absent('workers'),
    sshArgv: absent('ssh'),
    stepRunner: absent('setup steps'),
    onTerminal: absent('terminal'),
    ...options.services,
  };
  return {
    services,
    asked,
    out: () => parts.out.join(''),
    err: () => parts.err.join(''),
    set(nextJobs, nextEvents, nextLogs) {
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
    type(keys) {
      for (const call of keyboards) call(keys);
      return keyboards.size > 0;
    },
    kill() {
      const calls = [...endings];
      for (const call of calls) call();
      return calls.length > 0;
    },
    closeOutput() {
      closed = true;
    },
  };
}

/** One command, from arguments to text and exit code. */
export async function jobman(
  argv: readonly string[],
  options: PretendOptions = {},
): Promise<{ readonly code: number; readonly out: string; readonly err: string; readonly asked: readonly string[] }> {
  const world = pretend(options);
  const code = await run(argv, world.services);
  return { code, out: world.out(), err: world.err(), asked: world.asked };
}

/** A job that runs, with whatever the test wants to be different. */
export function view(different: Partial<JobView> = {}): JobView {
  const id = different.id ?? '000042';
  const row: JobRow = {
    id,
    name: 'vit-l16-3e4',
    user: 'alice',
    backend: 'tpu',
    accelerator: 'v5litepod-16',
    pricing: 'spot',
    zone: 'us-west4-a',
    host0: '10.164.0.7',
    phase: 'running',
    status: different.phase ?? 'running',
    reason: '2h05m, 2 preemptions',
    desired: 'run',
    stage: 2,
    attempt: 3,
    tags: [],
    createdAt: now - 14 * 3_600_000,
    since: now - 125 * 60_000,
    pricePerHour: null,
    pretended: false,
  };
  return {
    ...row,
    why: aWhy({ id, sentence: '4 of 4 workers alive.', next: 'look in 16 s' }),
    progress: null,
    saved: null,
    checkpointDir: null,
    workdirs: [],
    ifTaken: null,
    spent: null,
    attempts: [],
    allocations: [],
    workers: [],
    spec: localSpec({
      capacity: { kind: 'local', ownership: 'standing', workdir: '/home/alice' },
      recovery: { ...localSpec().recovery, preset: 'pre' },
    }),
    hasFiles: true,
    folder: `/home/alice/.jobman/jobs/alice/${id}`,
    ...different,
  };
}

/** A why with what is given, and nothing else to say. */
export function aWhy(given: Partial<Why>): Why {
  return {
    id: '000042',
    sentence: '',
    because: null,
    log: [],
    rule: null,
    usually: null,
    next: '',
    nextAt: null,
    lookAt: null,
    situation: null,
    ...given,
  };
}

/** A try at the command that was created now, with whatever the test wants to be different. */
export function attemptView(different: Partial<AttemptView> = {}): AttemptView {
  const { attempt = 1 } = different;
  return {
    attempt,
    stage: attempt - 1,
    how: attempt === 1 ? 'fresh' : 'resume',
    asked: attempt === 1,
    commandOnly: false,
    allocation: attempt,
    workers: [0],
    created: now,
    notBefore: now,
    started: null,
    ending: null,
    ended: null,
    reason: null,
    evidence: null,
    exits: [],
    workdir: null,
    ...different,
  };
}

/** Capacity that was requested now. */
export function allocationView(different: Partial<AllocationView> = {}): AllocationView {
  const { allocation = 1 } = different;
  return {
    allocation,
    name: `vit-000042-${allocation}`,
    ownership: 'owned',
    state: 'waiting',
    says: null,
    requested: now,
    ready: null,
    released: null,
    gone: null,
    workers: [],
    ...different,
  };
}

/** A TPU that is idle, of the job 000042. */
export function tpuRow(different: Partial<TpuRow> = {}): TpuRow {
  const name = different.name ?? 'vit-000042-1';
  const hour = 3_600_000;
  return {
    project: 'lab',
    zone: 'us-west4-a',
    name,
    resource: `projects/lab/locations/us-west4-a/nodes/${name}`,
    node: 'READY',
    queued: null,
    type: 'v5litepod-16',
    pricing: 'spot',
    label: null,
    sharedBy: null,
    owner: null,
    createdAt: now - 5 * hour,
    state: 'READY',
    whose: { kind: 'job', id: '000042', name: 'vit', user: 'lab', owner: 'alice' },
    job: '000042',
    readySince: now - 4 * hour,
    idle: 3 * hour,
    pricePerHour: 7.68,
    idleCost: 23.04,
    pretended: false,
    ...different,
  };
}

/** A cluster that can do what the test hands in. */
export function fakeCluster(parts: object): Cluster {
  const door = {
    place: () => ({ context: 'lab', server: 'https://lab', namespace: 'vision', user: 'alice' }),
    events: async () => [],
    close: async () => undefined,
    ...parts,
  };
  return door as object as Cluster;
}

/** The objects of an output with --json, one a line. */
export function objectsIn<T>(out: string): readonly T[] {
  const lines = out.trim().split('\n');
  return lines.map((line) => JSON.parse(line) as T);
}
