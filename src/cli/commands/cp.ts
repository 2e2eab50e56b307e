// cp: files and folders from here to a job's workers or pods, and from them to here.

import type { Client } from '../../app/client.ts';
import type { ClusterTarget } from '../../app/cluster/cluster.ts';
import type { CopyEnd, CopyRequest, WorkerDoor } from '../../app/by-hand.ts';
import { exitCode, type JobmanError, usageError } from '../../app/errors.ts';
import { fanOut } from '../../app/fan-out.ts';
import { countText, decimalSizeText, inertWord } from '../../app/figures.ts';
import { drawLine } from '../block.ts';
import { sayTrouble, type Cli, type GlobalFlags } from '../context.ts';
import { onEither, type PlaceFlags } from '../cluster/either.ts';
import { leaveOnSignal } from '../leave.ts';
import { chosenWorkers } from '../hosts/run-on.ts';
import { workersLabel } from '../logs/lines.ts';
import type { WorkerChoice } from '../parse.ts';

interface CpFlags extends PlaceFlags {
  readonly workers?: WorkerChoice | undefined;
  readonly replace?: boolean | undefined;
  readonly pod?: string | undefined;
  readonly container?: string | undefined;
}

/** Copies that go on at once: each reads its files anew, and the line here is one for all. */
const copiesMost = 8;

export async function cp(cli: Cli, flags: CpFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { ref, copies } = planOf(args);
  const { namespace, context } = flags;
  return onEither(cli, { namespace, context, jobName: undefined }, [ref], {
    record: (client) => cpOfRecord(cli, client, ref, copies, flags),
    async cluster(cluster, job) {
      const { chosenTargets } = await import('../cluster/pods.ts');
      const targets = await chosenTargets(cli, cluster, job, flags);
      const target = (number: number): ClusterTarget => {
        const found = targets.get(number);
        if (found === undefined) throw new Error(`no pod has the number ${number}`);
        return found;
      };
      const { cwd } = cli.io;
      const workers = [...targets.keys()];
      const door: CopyDoor = {
        noun: 'pod',
        workers,
        put: (number, request) => cluster.put(target(number), { ...request, cwd }),
        get: (number, request) => cluster.get(target(number), { ...request, cwd }),
      };
      return copyAll(cli, door, workers, copies, flags.replace === true);
    },
  });
}

async function cpOfRecord(
  cli: Cli,
  client: Client,
  ref: string,
  copies: readonly Copy[],
  flags: CpFlags,
): Promise<number> {
  for (const flag of ['pod', 'container'] as const) {
    if (flags[flag] !== undefined) {
      throw usageError(`--${flag} is for a job of a cluster; a TPU has workers: --workers.`);
    }
  }
  const { id } = await client.show(ref);
  const door = await cli.services.workers(id, 'own');
  try {
    const workers = chosenWorkers(flags.workers, door.workers, id);
    const copied: CopyDoor = {
      noun: 'worker',
      workers: door.workers,
      put: (worker, request) => door.put(worker, request),
      get: (worker, request) => door.get(worker, request),
    };
    return await copyAll(cli, copied, workers, copies, flags.replace === true);
  } finally {
    door.close();
  }
}

interface CopyDoor extends Pick<WorkerDoor, 'workers' | 'put' | 'get'> {
  readonly noun: 'worker' | 'pod';
}

interface Copy {
  readonly way: 'put' | 'get';
  readonly from: string;
  readonly to: string;
}

function planOf(args: readonly string[]): { readonly ref: string; readonly copies: readonly Copy[] } {
  const sources = args.slice(0, -1).map(sideOf);
  const target = sideOf(args.at(-1) ?? '');
  const [first] = sources;
  if (first === undefined) throw usage('What is to be copied, and where to?');
  // As of a script's variable that is not set; it would be read as the folder we stand in, with all that is in it.
  if (args.includes('')) throw usage('One of the paths is empty.');
  if (target.ref !== null) {
    if (sources.some(({ ref }) => ref !== null)) throw usage('One side has to be this machine.');
    return { ref: target.ref, copies: sources.map(({ path }) => ({ way: 'put', from: path, to: target.path })) };
  }
  if (first.ref === null || sources.some(({ ref }) => ref !== first.ref))
    throw usage('One side has to be the workers or pods of one job.');
  return { ref: first.ref, copies: sources.map(({ path }) => ({ way: 'get', from: path, to: target.path })) };
}

/** As scp has it: a colon before any slash means elsewhere. */
function sideOf(word: string): { readonly ref: string | null; readonly path: string } {
  const [, ref, path = ''] = /^([^/:]+):(.*)$/s.exec(word) ?? [];
  return ref === undefined ? { ref: null, path: word } : { ref, path };
}

function usage(sentence: string): JobmanError {
  return usageError(sentence, [
    'To all workers or pods: jobman cp ./data 42:data; from them: jobman cp 42:results ./',
    'A path of this machine that holds a colon begins with ./',
  ]);
}

async function copyAll(
  cli: Cli,
  door: CopyDoor,
  workers: readonly number[],
  copies: readonly Copy[],
  replace: boolean,
): Promise<number> {
  const { signal, release } = leaveOnSignal(cli);
  const { noun } = door;
  const progress = showProgress(cli, workers.length, noun);
  const failures = new Map<string, number[]>();
  let code: number = exitCode.ok;
  let leftOut = 0;
  let copied = 0;
  let bytes: number | null = 0;

  async function copy(worker: number): Promise<void> {
    for (const { way, from, to } of copies) {
      if (signal.aborted) return;
      // Several workers' files of one name must not meet.
      const target = way === 'get' && workers.length > 1 ? `${to === '' ? '.' : to}/${noun}-${worker}/` : to;
      const request: CopyRequest = { from, to: target, replace, onProgress: progress.add, signal };
      const end = await door[way](worker, request);
      if (cli.json) cli.print(JSON.stringify({ [noun]: worker, from, ...end }));
      if (end.kind === 'done') {
        copied += 1;
        leftOut += end.leftOut ?? 0;
        bytes = bytes === null || end.bytes === undefined ? null : bytes + end.bytes;
        continue;
      }
      if (signal.aborted) return;
      code = Math.max(code, codeOf(end));
      const said = sentenceOf(end);
      failures.set(said, [...(failures.get(said) ?? []), worker]);
    }
    progress.done();
  }

  try {
    await fanOut(workers, copiesMost, copy);
  } finally {
    release();
    progress.end();
  }
  for (const [sentence, on] of failures) {
    const who = door.workers.length === 1 ? '' : `[${workersLabel(on)}] `;
    sayTrouble(cli, `${who}${inertWord(sentence)}`);
  }
  if (signal.aborted) return exitCode.interrupted;
  if (leftOut > 0)
    cli.note(`Not copied: ${countText(leftOut, 'device, FIFO or socket', 'devices, FIFOs or sockets')}.`);
  if (copied === 0) cli.note('Nothing was copied.');
  else if (code === exitCode.ok) cli.note(progress.summary(bytes));
  else {
    const all =
      copies.length === 1
        ? countText(workers.length, noun)
        : countText(workers.length * copies.length, 'copy', 'copies');
    cli.note(`Copied: ${copied} of ${all}.`);
  }
  return code;
}

function codeOf(end: CopyEnd): number {
  if (end.kind === 'no_answer') return exitCode.unreachable;
  if (end.kind === 'done') return exitCode.ok;
  return { conflict: exitCode.conflict, missing: exitCode.notFound, failed: exitCode.failed }[end.because];
}

function sentenceOf(end: Exclude<CopyEnd, { kind: 'done' }>): string {
  if (end.kind === 'no_answer') return `not reached: ${end.reason}`;
  return end.because === 'conflict' ? `${end.reason}; --replace replaces it with the copy.` : end.reason;
}

function showProgress(cli: Cli, count: number, noun: CopyDoor['noun']) {
  const begun = cli.io.now();
  let bytes = 0;
  let done = 0;
  const sentence = (size = bytes): string => {
    const seconds = Math.max(0.001, (cli.io.now() - begun) / 1_000);
    return `${decimalSizeText(size)} in ${seconds.toFixed(1)}s (${decimalSizeText(bytes / seconds)}/s)`;
  };
  const line = drawLine(cli, 250, () => `copied ${sentence()}; ${done} of ${countText(count, noun)} done`);
  return {
    add: (more: number): void => void (bytes += more),
    done: (): void => void (done += 1),
    end: line.end,
    /** `files`: the size of what was copied; null where only the bytes on the way are known. */
    summary: (files: number | null): string => `Copied ${sentence(files ?? bytes)}, ${countText(count, noun)}.`,
  };
}
