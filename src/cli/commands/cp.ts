import type { CpFlags } from '../table/flags.ts';
import type { CopyOutput } from '../outputs.ts';
import type { CopyEnd, CopyRequest } from '../../app/worker-access.ts';
import { exitCode, type JobmanError, usageError } from '../../app/errors.ts';
import { mapConcurrent } from '../../app/concurrency.ts';
import { pluralize, formatBytes, escapeLine } from '../../app/format.ts';
import { drawStatusLine } from '../block.ts';
import { printError, type Cli, type GlobalFlags } from '../context.ts';
import type { Machines } from '../hosts/machines.ts';
import { openMachines } from '../jobs/machines.ts';
import { forEachJob } from '../jobs/resolve.ts';
import { abortOnSignal } from '../interrupt.ts';
import { joinLabels } from '../../app/log-text.ts';

/** Each copy reads its files again, and all share one connection. */
const maxConcurrentCopies = 8;

export async function cp(cli: Cli, flags: CpFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { ref, copies } = parseCopies(args);
  return forEachJob(cli, flags, [ref], 'change', async (job, jobs) => {
    const machines = await openMachines(cli, jobs, job, 'own', flags);
    try {
      return await copyAll(cli, machines, copies, flags.replace === true);
    } finally {
      machines.close();
    }
  });
}

interface Copy {
  readonly direction: 'put' | 'get';
  readonly from: string;
  readonly to: string;
}

function parseCopies(args: readonly string[]): { readonly ref: string; readonly copies: readonly Copy[] } {
  const sources = args.slice(0, -1).map(parseSide);
  const target = parseSide(args.at(-1) ?? '');
  const [first] = sources;
  if (first === undefined) throw usage('Copy what, and where to?');
  // An unset variable of a script gives an empty path, which would mean the whole current folder.
  if (args.includes('')) throw usage('One of the paths is empty.');
  if (target.ref !== null) {
    if (sources.some(({ ref }) => ref !== null)) throw usage('One side must be this machine.');
    return { ref: target.ref, copies: sources.map(({ path }) => ({ direction: 'put', from: path, to: target.path })) };
  }
  if (first.ref === null || sources.some(({ ref }) => ref !== first.ref))
    throw usage('One side must be the workers or pods of one job.');
  return { ref: first.ref, copies: sources.map(({ path }) => ({ direction: 'get', from: path, to: target.path })) };
}

/** As in scp: a colon before any slash means a remote path. */
function parseSide(arg: string): { readonly ref: string | null; readonly path: string } {
  const [, ref, path = ''] = /^([^/:]+):(.*)$/s.exec(arg) ?? [];
  return ref === undefined ? { ref: null, path: arg } : { ref, path };
}

function usage(sentence: string): JobmanError {
  return usageError(sentence, [
    'To all workers or pods: jobman cp ./data 42:data; from them: jobman cp 42:results ./',
    'A local path that contains a colon begins with ./',
  ]);
}

async function copyAll(cli: Cli, machines: Machines, copies: readonly Copy[], replace: boolean): Promise<number> {
  const { signal, release } = abortOnSignal(cli);
  const { noun, selected: workers } = machines;
  const progress = showProgress(cli, workers.length, noun);
  const failures = new Map<string, number[]>();
  let code: number = exitCode.ok;
  let leftOut = 0;
  let copied = 0;
  let bytes: number | null = 0;

  async function copy(worker: number): Promise<void> {
    for (const { direction, from, to } of copies) {
      if (signal.aborted) return;
      // Files of the same name from several workers must not overwrite each other.
      const target = direction === 'get' && workers.length > 1 ? `${to === '' ? '.' : to}/${noun}-${worker}/` : to;
      const request: CopyRequest = { from, to: target, replace, onProgress: progress.add, signal };
      const end = await machines[direction](worker, request);
      if (cli.json) cli.printJson(copyJson(worker, from, end));
      if (end.kind === 'done') {
        copied += 1;
        leftOut += end.skipped ?? 0;
        bytes = bytes === null || end.bytes === undefined ? null : bytes + end.bytes;
        continue;
      }
      if (signal.aborted) return;
      code = Math.max(code, copyExitCode(end));
      const message = formatFailure(end);
      failures.set(message, [...(failures.get(message) ?? []), worker]);
    }
    progress.done();
  }

  try {
    await mapConcurrent(workers, maxConcurrentCopies, copy);
  } finally {
    release();
    progress.end();
  }
  for (const [sentence, on] of cli.json ? [] : failures) {
    const who = machines.count === 1 ? '' : `[${joinLabels(on)}] `;
    printError(cli, `${who}${escapeLine(sentence)}`);
  }
  if (signal.aborted) return exitCode.interrupted;
  if (leftOut > 0)
    cli.note(`Not copied: ${pluralize(leftOut, 'device, FIFO or socket', 'devices, FIFOs or sockets')}.`);
  if (copied === 0) cli.note('Nothing was copied.');
  else if (code === exitCode.ok) cli.note(progress.summary(bytes));
  else {
    const all =
      copies.length === 1
        ? pluralize(workers.length, noun)
        : pluralize(workers.length * copies.length, 'copy', 'copies');
    cli.note(`Copied: ${copied} of ${all}.`);
  }
  return code;
}

function copyJson(worker: number, from: string, end: CopyEnd): CopyOutput {
  const copy = { worker, from, to: null, bytes: null, skipped: 0 };
  switch (end.kind) {
    case 'done':
      return {
        ...copy,
        outcome: 'done',
        to: end.path,
        bytes: end.bytes ?? null,
        skipped: end.skipped ?? 0,
        message: null,
      };
    case 'failed':
      return { ...copy, outcome: end.cause, message: end.reason };
    case 'unreachable':
      return { ...copy, outcome: 'unreachable', message: end.reason };
  }
}

function copyExitCode(end: CopyEnd): number {
  if (end.kind === 'unreachable') return exitCode.unreachable;
  if (end.kind === 'done') return exitCode.ok;
  return { conflict: exitCode.conflict, missing: exitCode.notFound, failed: exitCode.failed }[end.cause];
}

function formatFailure(end: Exclude<CopyEnd, { kind: 'done' }>): string {
  if (end.kind === 'unreachable') return `not reached: ${end.reason}`;
  return end.cause === 'conflict' ? `${end.reason}; --replace replaces it with the copy.` : end.reason;
}

function showProgress(cli: Cli, count: number, noun: Machines['noun']) {
  const begun = cli.io.now();
  let bytes = 0;
  let done = 0;
  const sentence = (size = bytes): string => {
    const seconds = Math.max(0.001, (cli.io.now() - begun) / 1_000);
    return `${formatBytes(size)} in ${seconds.toFixed(1)}s (${formatBytes(size / seconds)}/s)`;
  };
  const line = drawStatusLine(cli, 250, () => `copied ${sentence()}; ${done} of ${pluralize(count, noun)} done`);
  return {
    add: (more: number): void => void (bytes += more),
    done: (): void => void (done += 1),
    end: line.end,
    /** `files`: the size of the copied files; null if only the transferred bytes are known. */
    summary: (files: number | null): string => `Copied ${sentence(files ?? bytes)}, ${pluralize(count, noun)}.`,
  };
}
