// __end: what the script of an attempt asks when it ends. It prints the exit code that the attempt is to have.

import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { second } from '../../../core/time.ts';
import { foldersOf, historyLine, verdictOf } from '../../../lab/attempt.ts';
import type { LabAttempt } from '../../../lab/record.ts';
import type { TpuDesk, TpuState } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
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
  const asksLog = !isStopped && code === 0 && report !== null && !isFinished;
  const hasHistory = asksLog && (await hasLine(join(report.logFolder, 'output.log'), historyLine));
  const verdict = isStopped ? { code, says: null } : verdictOf({ code, report, isFinished, hasHistory });
  if (verdict.says !== null) desk.io.stderr.write(`-- ${verdict.says}\n`);
  if (found !== undefined) {
    if (isStopped || verdict.code !== 0) await endOwn(desk, found, isStopped);
    await bookAttempt(desk, found.job, 'reserved', (sentence) => desk.io.stderr.write(`-- ${sentence}\n`));
  }
  desk.io.stdout.write(`${verdict.code}\n`);
  return exitCode.ok;
}

/** A program on a worker outlives the line that started it, and would hold the TPU for nobody. */
async function endOwn(desk: TpuCli, found: LabAttempt, isStopped: boolean): Promise<void> {
  const folders = foldersOf([found], found.job.tpu);
  if (folders.length === 0) return;
  const tpus = await desk.lab.tpus();
  try {
    const tpu = await labTpuOf(desk, found.job.tpu);
    const state = await tpus.describe(tpu);
    // Where the cloud has taken its machines there is nobody to ask.
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

/** Whether that text stands in the file. It is likeliest at the end, so the end is read first; a log may have gigabytes. */
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
      // What is cut by the border of two parts is whole in the earlier one.
      const length = Math.min(end - from + wanted.length, size - from);
      const { bytesRead } = await file.read(buffer, 0, length, from);
      if (buffer.subarray(0, bytesRead).includes(wanted)) return true;
    }
    return false;
  } finally {
    await file.close();
  }
}
