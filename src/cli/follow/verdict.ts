// The end of a followed job.

import type { JobView } from '../../app/client.ts';
import { asClause, escapeLine, formatDuration } from '../../app/format.ts';
import { formatEnding } from '../../app/phrases.ts';
import { createStoreSource, storedJob } from '../../app/store-source.ts';
import type { Instant } from '../../core/model/time.ts';
import type { Cli } from '../context.ts';
import { createLogStream, type LogRules } from '../logs/stream.ts';

/** A failed setup has no log of the command; the last lines of the step show the error. */
export async function showFailedStep(cli: Cli, view: JobView): Promise<void> {
  if (view.attempts.at(-1)?.reason !== 'setup_failed') return;
  const client = await cli.services.client();
  const events = await client.events(view.id, 0);
  const failed = events.findLast(({ event }) => event.kind === 'step_failed')?.event;
  if (failed?.kind !== 'step_failed') return;
  cli.printStderr(`-- the last lines of setup step ${failed.step} on worker ${failed.worker}`);
  const { io } = cli;
  const form = io.stderr.isTerminal ? 'terminal' : 'pipe';
  const query = { step: failed.step, worker: failed.worker, tail: 20 };
  const rules: LogRules = { form, fold: false, colour: cli.screen.colour };
  const source = createStoreSource(client, io);
  const stream = createLogStream(
    async ({ id }, from, maxBytes) => (await client.readLog(view.id, id, from, maxBytes)).bytes,
    io.stderr,
    rules,
  );
  for await (const step of source.logs(storedJob(view.id), query))
    if (step.kind === 'logs') for (const log of step.logs) stream.add({ ...log, label: log.worker });
  await stream.finish(io.now());
}

/** `Job 000042 (vit) failed after 2h05m: exit 1 on worker 3; its log says "…". Explain: jobman why 42` */
export function verdictLine(view: JobView): string {
  const { id, name, phase, heldCapacity } = view;
  const verdict = phase === 'stopped' || phase === 'cancelled' ? `was ${phase}` : phase;
  const holds = heldCapacity === null ? '' : ` and holds ${heldCapacity}`;
  const end = `Job ${id} (${name}) ${verdict} after ${formatDuration(view.phaseStartedAt - requestedAt(view))}${holds}`;
  if (phase === 'succeeded') return escapeLine(`${end}.`);
  const { evidence = null, reason = null } = view.attempts.at(-1) ?? {};
  const evidenceText = evidence === null || reason === null ? view.message : formatEnding(view, { reason, evidence });
  const more = phase === 'failed' ? ` Explain: jobman why ${Number(id)}` : '';
  return escapeLine(`${end}${evidenceText === '' ? '' : `: ${asClause(evidenceText)}`}.${more}`);
}

/** A job that was stopped last week and resumed today did not take a week. */
function requestedAt({ attempts, createdAt }: JobView): Instant {
  const newest = attempts.findLast(({ startedBy }) => startedBy === 'owner');
  return newest === undefined || newest.attempt === 1 ? createdAt : newest.createdAt;
}
