// Ending jobs of the lab, whoever they belong to, and waiting until nothing of them is alive on this machine.

import type { Client } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { minute, second } from '../../core/time.ts';
import { wake } from '../controller.ts';
import { pause } from '../leave.ts';
import { isSettled } from '../settled.ts';
import type { TpuCli } from './tpu-cli.ts';

/** The script of a job has a minute to end; then it is killed. */
const endWithin = 2 * minute;
const lookEvery = 0.25 * second;

/**
 * Cancels those jobs, in the name of whoever does it, and resolves when all of them have settled. Throws JobmanError: what a
 * job refuses; (1) where one goes on for too long; (130) when the signal is aborted before.
 */
export async function endJobs(
  desk: TpuCli,
  client: Client,
  jobs: readonly string[],
  { by, signal }: { readonly by: string; readonly signal: AbortSignal },
): Promise<void> {
  if (jobs.length === 0) return;
  for (const job of jobs) {
    const answer = await client.ask(job, 'cancel', { by, onBehalf: true });
    // It may have come to its end by itself in this moment; then there is nothing to end.
    if (!answer.ok && !(await isOver(client, job))) throw new JobmanError(answer.message, answer.code);
  }
  await wake(desk, client);
  await untilSettled(desk, client, jobs, signal);
}

async function isOver(client: Client, job: string): Promise<boolean> {
  return isSettled(await client.show(job));
}

async function untilSettled(desk: TpuCli, client: Client, jobs: readonly string[], signal: AbortSignal): Promise<void> {
  const { io } = desk;
  const end = io.now() + endWithin;
  let changes = -1;
  let open = jobs;
  for (;;) {
    const now = await client.changes();
    if (now !== changes) {
      changes = now;
      const over = await Promise.all(open.map((job) => isOver(client, job)));
      open = open.filter((_, index) => over[index] !== true);
    }
    if (open.length === 0) return;
    if (signal.aborted)
      throw new JobmanError(
        `You left before job ${open.join(', ')} has ended; it goes on ending.`,
        exitCode.interrupted,
      );
    if (io.now() > end)
      throw new JobmanError(`Job ${open.join(', ')} has not ended within two minutes.`, exitCode.failed, [
        `jobman why ${Number(open[0])}    says what it waits for`,
      ]);
    await pause(lookEvery, signal);
  }
}
