/** What tests of whole jobs share: manifests in a line, jobs as data, and the background parts ended with the world. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import type { JobView } from '../../src/app/client.ts';
import { eventually } from './eventually.ts';
import { jobman, type Ended, type Options } from './jobman.ts';
import { markVariable, processesOf, type RunningProcess } from './leaks.ts';
import { openWorld, type Scope, type World } from './world.ts';

/** A world in which a controller and the built-in cloud may run; they are ended with it, programs of jobs are not. */
export function openJobWorld(scope: Scope): World {
  const world = openWorld(scope, { patienceMs: 20_000 });
  world.atEnd(() => endParts(world));
  return world;
}

/** Ends the controller and the built-in cloud of this world; safe to repeat. */
export async function endParts(world: World): Promise<void> {
  // The controller first: it would start the cloud again.
  for (const part of ['controller run', 'emulator serve']) {
    for (const { pid } of runningIn(world, part)) end(pid, 'SIGTERM');
    // The cloud ends its hosts first, and clears away what they have on disk: with images that are gigabytes.
    await eventually(() => runningIn(world, part).length === 0, { withinMs: 60_000 });
  }
}

/** The processes of this world whose command line holds that text. */
export function runningIn(world: World, text: string): readonly RunningProcess[] {
  return processesOf(world.env[markVariable] ?? '', world.folder).filter(({ command }) => command.includes(text));
}

/** Sends a signal to a process that may have ended by itself. */
export function end(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended already.
  }
}

/** Kills the controller of this world as a machine would, without a word; true when there was one. */
export async function killController(world: World): Promise<boolean> {
  const found = runningIn(world, 'controller run');
  for (const { pid } of found) end(pid, 'SIGKILL');
  await eventually(() => runningIn(world, 'controller run').length === 0);
  return found.length > 0;
}

/** Writes a manifest of a job on this machine; `more` holds further sections and keys of `job`. */
export function localManifest(
  world: World,
  run: string,
  more: { readonly name?: string; readonly job?: object; readonly [section: string]: unknown } = {},
): string {
  const { name = 'bad', job = {}, ...sections } = more;
  return writeManifest(world, { job: { name, ...job }, local: {}, command: { run }, ...sections });
}

/** Where programs on the built-in cloud and tests share files: a worker sees the rest of the machine as it was. */
export function bucket(world: World, ...below: readonly string[]): string {
  return join(world.home, 'emulator', 'buckets', 'shared', ...below);
}

/** Writes a manifest of a job on the built-in cloud with `~/bucket`, and with two workers unless told otherwise. */
export function cloudManifest(
  world: World,
  run: string,
  more: {
    readonly name?: string;
    readonly job?: object;
    readonly tpu?: object;
    readonly [section: string]: unknown;
  } = {},
): string {
  const { name = 'bad', job = {}, tpu = {}, ...sections } = more;
  return writeManifest(world, {
    job: { name, ...job },
    tpu: { project: 'emulator', accelerator: 'v4-16', zone: 'us-central2-b', pricing: 'spot', ...tpu },
    gcsfuse: { bucket_name: 'shared', mount_path: '~/bucket' },
    command: { run, workers: 'all' },
    ...sections,
  });
}

let manifests = 0;

/** JSON is YAML. */
function writeManifest(world: World, content: object): string {
  manifests += 1;
  const file = join(world.folder, `manifest-${manifests}.yaml`);
  writeFileSync(file, JSON.stringify(content, null, 2));
  return file;
}

/** Runs a command that must end well, and returns it. */
export async function well(world: World, argv: readonly string[], options: Options = {}): Promise<Ended> {
  const ended = await jobman(world, argv, options);
  assert.equal(ended.code, 0, `jobman ${argv.join(' ')}\n${ended.stdout}${ended.stderr}`);
  return ended;
}

/** Creates a job and returns its id. */
export async function create(world: World, manifest: string, ...words: readonly string[]): Promise<string> {
  const { stdout } = await well(world, ['create', manifest, '--quiet', ...words]);
  assert.match(stdout, /^\d{6}\n$/);
  return stdout.trim();
}

/** The moments of `show --json` are texts; all else is as the Client says it. */
export type Shown = Omit<JobView, 'attempts'> & {
  readonly attempts: readonly (Omit<JobView['attempts'][number], 'started' | 'ended'> & {
    readonly started: string | null;
    readonly ended: string | null;
  })[];
};

export async function show(world: World, id: string): Promise<Shown> {
  const { stdout } = await well(world, ['show', id, '--json']);
  return JSON.parse(stdout) as Shown;
}

/** Waits until the record says so; fails with what it says instead. */
export async function until(world: World, id: string, is: (job: Shown) => boolean, withinMs = 90_000): Promise<Shown> {
  let job: Shown | undefined;
  const found = await eventually(async () => is((job = await show(world, id))) && job, { withinMs, everyMs: 100 });
  if (found === undefined) assert.fail(`Job ${id} did not get there: ${JSON.stringify(job, null, 1)}`);
  return found;
}

/** `wait`, with the exit code that is expected of it. */
export async function settled(world: World, id: string, code = 0, withinMs = 120_000): Promise<Shown> {
  const waited = await jobman(world, ['wait', id], { withinMs });
  assert.equal(waited.code, code, `${waited.stdout}${waited.stderr}`);
  return show(world, id);
}

/** Where the files of a job of the user who runs the tests are. */
export function jobFolder(world: World, id: string, ...below: readonly string[]): string {
  return join(world.home, 'jobs', userInfo().username, id, ...below);
}

/** The log of the command as copied to the job's files. */
export function logOf(world: World, id: string, worker: number | 'here' = 0): Buffer {
  return readFileSync(jobFolder(world, id, 'logs', `command_worker_${worker}.log`));
}
