// __end: what the script of an attempt asks when it ends. It prints the exit code that the attempt is to have.

import { open, writeFile } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { second } from '../../../core/time.ts';
import { foldersOf, historyLine, lastErrorIn, unconfirmedReason } from '../../../lab/attempt.ts';
import type { LabAttempt } from '../../../lab/record.ts';
import type { TpuDesk, TpuState } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import type { WindowReport } from '../../../lab/windows.ts';
import { inertWord } from '../../render/inert.ts';
import { bookAttempt } from '../book-attempt.ts';
import { endOnWorkers, labTpuOf } from '../take.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';

/** A script that was asked to end has a minute until it is killed. */
const endWithin = 40 * second;
/** The cloud's word about a machine that it takes comes later than its silence by so much at most. */
const cloudSaysWithin = 90 * second;
const lookEvery = 2 * second;

export async function end(desk: TpuCli, { raw }: Words): Promise<number> {
  const { env } = desk.io;
  const id = env['JOBMAN_JOB_ID'];
  const attempt = Number(env['JOBMAN_ATTEMPT']);
  const code = Number(raw.at(-1));
  if (id === undefined || !Number.isInteger(code))
    throw new JobmanError('Only the script of a job that `tpu run` has made may ask how it came out.', exitCode.usage);
  const isStopped = raw.includes('--stopped');
  const windows = await desk.lab.record.windows({ jobs: [id], cleared: true });
  const found = windows.find(({ window }) => window.attempt === attempt);
  const report = found?.window.report ?? null;
  const isFinished = found !== undefined && found.window.finishedAt !== null;
  // Jobs that an earlier version created do not name their run folder: for them the exit code alone can report a failure.
  const runFolder = raw.find((word) => isAbsolute(word)) ?? null;
  const reason = isStopped ? null : await unconfirmed(code, report, isFinished, runFolder);
  if (reason !== null) desk.io.stderr.write(`-- This attempt failed: ${reason}\n`);
  if (reason !== null && runFolder !== null) await writeFile(join(runFolder, 'failure'), `${inertWord(reason)}\n`);
  const verdict = reason !== null && runFolder === null ? exitCode.failed : code;
  if (found !== undefined) {
    if (isStopped || code !== 0 || reason !== null) await endOwn(desk, found, isStopped);
    await bookAttempt(desk, found.job, 'reserved', (sentence) => desk.io.stderr.write(`-- ${sentence}\n`));
  }
  desk.io.stdout.write(`${verdict}\n`);
  return exitCode.ok;
}

async function unconfirmed(
  code: number,
  report: WindowReport | null,
  isFinished: boolean,
  runFolder: string | null,
): Promise<string | null> {
  if (code !== 0 || isFinished) return null;
  // The attempt's own log has what the script printed, which is all there is where the script did not name its log.
  const own = runFolder === null ? [] : [join(runFolder, 'log')];
  const logs = [...(report === null ? [] : [join(report.logFolder, 'output.log')]), ...own];
  let hasHistory = false;
  let lastError: string | null = null;
  for (const log of logs) {
    hasHistory ||= await hasLine(log, historyLine);
    lastError ??= lastErrorIn(await endOf(log));
  }
  return unconfirmedReason({ code, report, isFinished, hasHistory, lastError });
}

/** A program on a worker outlives the line that started it, and would hold the TPU for nobody. */
async function endOwn(desk: TpuCli, found: LabAttempt, isStopped: boolean): Promise<void> {
  const folders = foldersOf([found], found.job.tpu);
  if (folders.length === 0) return;
  const tpus = await desk.lab.tpus();
  try {
    const tpu = await labTpuOf(desk, found.job.tpu);
    const state = await tpus.describe(tpu);
    // A TPU that the cloud has taken has no workers.
    if (!isReady(state)) return;
    const missed = await endOnWorkers(desk, tpus, tpu, { folders, pids: [] }, AbortSignal.timeout(endWithin));
    if (missed.length > 0 && !isStopped && tpu.pricing !== 'ondemand') await cloudSays(tpus, tpu);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    for (const line of [error.message, ...error.lines]) desk.io.stderr.write(`-- ${line}\n`);
  } finally {
    tpus.close();
  }
}

function isReady(state: TpuState): boolean {
  return state.kind === 'known' && state.state === 'ready';
}

/**
 * A machine that is taken is silent before the cloud says that it took it, and the script fails of that silence: with the exit
 * code of a failure of its own, were it told at once. So the cloud is given a while for its word.
 */
async function cloudSays(tpus: TpuDesk, tpu: LabTpu): Promise<void> {
  for (let turn = 0; turn < cloudSaysWithin / lookEvery; turn += 1) {
    await sleep(lookEvery);
    if (!isReady(await tpus.describe(tpu))) return;
  }
}

const chunkSize = 1 << 20;

/** Bytes at the end of a log that are searched for its last error. */
const endSize = 64 * 1024;

/** The end of a log; empty where it cannot be read. */
async function endOf(path: string): Promise<string> {
  let file;
  try {
    file = await open(path, 'r');
    const { size } = await file.stat();
    const from = Math.max(0, size - endSize);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    return buffer.subarray(0, bytesRead).toString('utf8');
  } catch {
    return '';
  } finally {
    await file?.close();
  }
}

/** True if the file contains the text. The end is read first, since a log may have gigabytes and the text is most likely there. */
async function hasLine(path: string, text: string): Promise<boolean> {
  const wanted = Buffer.from(text);
  let file;
  try {
    file = await open(path, 'r');
  } catch {
    return false;
  }
  try {
    const { size } = await file.stat();
    const buffer = Buffer.alloc(chunkSize + wanted.length);
    for (let end = size; end > 0; end -= chunkSize) {
      const from = Math.max(0, end - chunkSize);
      // Overlap, so that a text across the border of two parts is whole in one.
      const length = Math.min(end - from + wanted.length, size - from);
      const { bytesRead } = await file.read(buffer, 0, length, from);
      if (buffer.subarray(0, bytesRead).includes(wanted)) return true;
    }
    return false;
  } finally {
    await file.close();
  }
}
