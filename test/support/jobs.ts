/**
 * A world for tests of whole jobs: commands, short manifests, jobs as data, and the cleanup of background processes.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import type { JobView } from '../../src/app/client.ts';
import { eventually } from './eventually.ts';
import { jobman, startJobman, type JobmanResult, type JobmanOptions, type RunningCommand } from './jobman.ts';
import { testIdVariable, processesOf, type RunningProcess } from './leaks.ts';
import { openWorld, type Scope, type World } from './world.ts';

/** The times of `show --json` are strings; all other fields are as in the Client. */
type ShownJob = Omit<JobView, 'attempts'> & {
  readonly attempts: readonly (Omit<JobView['attempts'][number], 'startedAt' | 'endedAt'> & {
    readonly startedAt: string | null;
    readonly endedAt: string | null;
  })[];
};

/** Further sections of a manifest, and further keys of `job` and `tpu`. */
interface Sections {
  readonly name?: string;
  readonly job?: object;
  readonly tpu?: object;
  readonly [section: string]: unknown;
}

/** The environment of every command, in addition to the world's. */
type Defaults = Pick<JobmanOptions, 'env' | 'withinMs'>;

/** A world in which a controller and the TPU emulator may run. They end with it; programs of jobs do not. */
export function openJobWorld(scope: Scope, defaults: Defaults = {}): JobWorld {
  return new JobWorld(scope, defaults);
}

export class JobWorld implements World {
  readonly folder: string;
  readonly home: string;
  readonly env: World['env'];
  readonly #world: World;
  readonly #defaults: Defaults;
  #manifests = 0;

  constructor(scope: Scope, { env = {}, withinMs }: Defaults) {
    const world = openWorld(scope, { patienceMs: 20_000 });
    this.folder = world.folder;
    this.home = world.home;
    this.env = { ...world.env, ...env };
    this.#world = world;
    this.#defaults = withinMs === undefined ? {} : { withinMs };
    this.atEnd(() => this.stopServices());
  }

  atEnd(undo: () => void | Promise<void>): void {
    this.#world.atEnd(undo);
  }

  jobman(argv: readonly string[], options: JobmanOptions = {}): Promise<JobmanResult> {
    return jobman(this, argv, { ...this.#defaults, ...options });
  }

  start(argv: readonly string[], options: JobmanOptions = {}): RunningCommand {
    return startJobman(this, argv, { ...this.#defaults, ...options });
  }

  /** Runs a command that must succeed, and returns the result. */
  async runOk(argv: readonly string[], options: JobmanOptions = {}): Promise<JobmanResult> {
    const result = await this.jobman(argv, options);
    assert.equal(result.code, 0, `jobman ${argv.join(' ')}\n${result.stdout}${result.stderr}`);
    return result;
  }

  /** Returns the output of a command that must succeed. */
  async output(...argv: readonly string[]): Promise<string> {
    return (await this.runOk(argv)).stdout;
  }

  /** The JSON lines that a command prints. */
  async jsonRows<T>(...argv: readonly string[]): Promise<readonly T[]> {
    return jsonLines<T>(await this.output(...argv));
  }

  /** Runs a command that must fail with that code and message and print nothing on stdout; returns stderr. */
  async runRefused(
    code: number,
    pattern: RegExp,
    argv: readonly string[],
    options: JobmanOptions = {},
  ): Promise<string> {
    const { stdout, stderr, ...result } = await this.jobman(argv, options);
    const transcript = `jobman ${argv.join(' ')}\n${stdout}${stderr}`;
    assert.deepEqual([result.code, stdout], [code, ''], transcript);
    assert.match(stderr, pattern, transcript);
    return stderr;
  }

  /** Creates a job and returns its id. */
  async create(manifest: string, ...args: readonly string[]): Promise<string> {
    const stdout = await this.output('create', manifest, '--quiet', ...args);
    assert.match(stdout, /^\d{6}\n$/);
    return stdout.trim();
  }

  async show(id: string): Promise<ShownJob> {
    return JSON.parse(await this.output('show', id, '--json')) as ShownJob;
  }

  /** Waits until the job has that phase; fails with its last state. */
  async waitUntil(id: string, is: (job: ShownJob) => boolean, withinMs = 90_000): Promise<ShownJob> {
    let job: ShownJob | undefined;
    const found = await eventually(async () => is((job = await this.show(id))) && job, { withinMs, everyMs: 100 });
    if (found === undefined) assert.fail(`Job ${id} did not reach the phase: ${JSON.stringify(job, null, 1)}`);
    return found;
  }

  waitForPhase(id: string, phase: string, withinMs?: number): Promise<ShownJob> {
    return this.waitUntil(id, (job) => job.phase === phase, withinMs);
  }

  /** `wait`, with the expected exit code. */
  async waitForFinish(id: string, code = 0, withinMs = 120_000): Promise<ShownJob> {
    const waited = await this.jobman(['wait', id], { withinMs });
    assert.equal(waited.code, code, `${waited.stdout}${waited.stderr}`);
    return this.show(id);
  }

  /** Writes a manifest of a job on this machine. */
  localManifest(run: string, { name = 'bad', job = {}, ...sections }: Sections = {}): string {
    return this.manifest({ job: { name, ...job }, local: {}, command: { run }, ...sections });
  }

  /** Writes a manifest of a job on the TPU emulator with `~/bucket`, by default on two workers. */
  tpuManifest(run: string, { name = 'bad', job = {}, tpu = {}, ...sections }: Sections = {}): string {
    return this.manifest({
      job: { name, ...job },
      tpu: { project: 'emulator', accelerator: 'v4-16', zone: 'us-central2-b', pricing: 'spot', ...tpu },
      gcsfuse: { bucket_name: 'shared', mount_path: '~/bucket' },
      command: { run, workers: 'all' },
      ...sections,
    });
  }

  /** Writes a manifest; an object is written as JSON, which is YAML. */
  manifest(content: object | string): string {
    this.#manifests += 1;
    const file = join(this.folder, `manifest-${this.#manifests}.yaml`);
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content, null, 2));
    return file;
  }

  /** The folder that programs on the TPU emulator share with tests. Workers see copies of all other files. */
  bucketPath(...below: readonly string[]): string {
    return join(this.home, 'emulator', 'buckets', 'shared', ...below);
  }

  /** The URL of the TPU emulator. */
  emulatorEndpoint(): { readonly url: string; readonly sshPort: number; readonly pid: number } {
    return JSON.parse(readFileSync(join(this.home, 'emulator/endpoint.json'), 'utf8')) as ReturnType<
      JobWorld['emulatorEndpoint']
    >;
  }

  /** The folder of a job's files, for a job of the user who runs the tests. */
  jobFolder(id: string, ...below: readonly string[]): string {
    return join(this.home, 'jobs', userInfo().username, id, ...below);
  }

  /** The archived log of the command. */
  readLog(id: string, worker: number | 'controller' = 0): Buffer {
    return readFileSync(this.jobFolder(id, 'logs', `command_worker_${worker}.log`));
  }

  /** The processes of this world whose command line contains that text. */
  processesMatching(text: string): readonly RunningProcess[] {
    return processesOf(this.env[testIdVariable] ?? '', this.folder).filter(({ command }) => command.includes(text));
  }

  /** Kills the controller of this world without a signal handler; false when there was none. */
  async killController(): Promise<boolean> {
    const found = this.processesMatching('controller run');
    for (const { pid } of found) sendSignal(pid, 'SIGKILL');
    await eventually(() => this.processesMatching('controller run').length === 0);
    return found.length > 0;
  }

  /** Ends the controller and the TPU emulator of this world; safe to repeat. */
  async stopServices(): Promise<void> {
    // The controller first, because it would start the emulator again.
    for (const part of ['controller run', 'emulator serve']) {
      for (const { pid } of this.processesMatching(part)) sendSignal(pid, 'SIGTERM');
      // The emulator also removes its hosts' disks, which have gigabytes with images.
      await eventually(() => this.processesMatching(part).length === 0, { withinMs: 60_000 });
    }
  }
}

/** Sends a signal to a process that may have ended already. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended already.
  }
}

/** The values in lines of JSON. */
export function jsonLines<T>(text: string): readonly T[] {
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as T);
}

/** The reasons of a job's attempts. */
export function reasonsOf({ attempts }: Pick<ShownJob, 'attempts'>): readonly (string | null)[] {
  return attempts.map(({ reason }) => reason);
}
