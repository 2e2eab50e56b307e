// Gathering what `solve` and `describe` look at: the cloud's word, then one script on every worker, then at most Python.

import type { Instant } from '../core/time.ts';
import { second } from '../core/time.ts';
import { environmentOf, environmentScript, environmentWithin } from './environment.ts';
import type { Environment } from './environment.ts';
import { sharesOf } from './mount-step.ts';
import type { Site } from './site.ts';
import { hasWorkers } from './solve.ts';
import type { SolveFacts } from './solve.ts';
import type { TpuDesk } from './tpu-desk.ts';
import type { LabTpu } from './tpus.ts';
import { factsScript, readFacts } from './worker-facts.ts';

/** A worker that hangs costs no more than this. */
const factsWithin = 40 * second;

/** Everything but Python. Throws JobmanError as the desk does. */
export async function gatherFacts(
  desk: Pick<TpuDesk, 'describe' | 'onWorkers'>,
  tpu: LabTpu,
  options: {
    readonly site: Site;
    /** Whether workers are to be logged in to W&B. */
    readonly hasKey: boolean;
    readonly now: () => Instant;
    readonly signal: AbortSignal;
  },
): Promise<SolveFacts> {
  const { site, hasKey, now, signal } = options;
  const state = await desk.describe(tpu);
  const nobody = { tpu, site, state, workers: [], silent: [], environment: null };
  if (state.kind === 'unknown' || !hasWorkers(state)) return nobody;
  const shares = sharesOf(site, state.zone);
  const from = now();
  const answers = await desk.onWorkers(tpu, factsScript(shares, site), { timeoutMs: factsWithin, signal });
  const asked = { shares, hasKey, from, to: now() };
  const workers = answers.flatMap((answer) => readFacts(answer, asked) ?? []);
  const silent = answers
    .filter(({ worker }) => !workers.some((one) => one.worker === worker))
    .map((answer) => ({
      worker: answer.worker,
      says: answer.kind === 'no_answer' ? answer.says : `what it told cannot be read: ${answer.output.slice(0, 200)}`,
    }));
  return { ...nobody, workers, silent };
}

/** Has Python look at the devices. Throws JobmanError as the desk does. */
export async function askPython(
  desk: Pick<TpuDesk, 'onWorkers'>,
  tpu: LabTpu,
  site: Pick<Site, 'python'>,
  signal: AbortSignal,
): Promise<Environment> {
  const answers = await desk.onWorkers(tpu, environmentScript(site), { timeoutMs: environmentWithin, signal });
  return environmentOf(answers);
}
