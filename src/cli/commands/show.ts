import type { PassQuery } from '../../app/client.ts';
import { exitCode } from '../../app/errors.ts';
import { detailsJson } from '../../app/json.ts';
import type { HistoryEntry } from '../../app/job-source.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { createWaker, restartIfKilled } from '../controller.ts';
import { printEachJob, type JobFlags } from '../jobs/resolve.ts';
import type { Output } from '../outputs.ts';
import { layoutOf } from '../screen.ts';

export async function show(cli: Cli, flags: JobFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  if (args.length === 0 && flags.jobName === undefined) {
    const { list } = await import('./list.ts');
    return list(cli, flags);
  }
  const textOf: Parameters<typeof printEachJob>[3] = async (job, jobs) => {
    const [details, { showLines }] = await Promise.all([jobs.show(job), import('../render/show.ts')]);
    return { objects: () => [detailsJson(details)], lines: () => showLines(details, layoutOf(cli)) };
  };
  return printEachJob(cli, flags, args, textOf, () => restartIfKilled(cli, createWaker(cli)));
}

interface WhyFlags extends JobFlags {
  readonly explain?: boolean | undefined;
}

export function why(cli: Cli, flags: WhyFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const textOf: Parameters<typeof printEachJob>[3] = async (job, jobs) => {
    const [answer, { whyLines }] = await Promise.all([jobs.why(job), import('../render/show.ts')]);
    return { objects: () => [answer], lines: () => whyLines(answer, layoutOf(cli), flags.explain === true) };
  };
  return printEachJob(cli, flags, args, textOf, () => restartIfKilled(cli, createWaker(cli)));
}

interface HistoryFlags extends JobFlags {
  readonly timeline?: boolean | undefined;
}

export function history(cli: Cli, flags: HistoryFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const textOf: Parameters<typeof printEachJob>[3] = async (job, jobs) => {
    const { expectAttempts, historyText } = await import('../render/history.ts');
    const timeline = flags.timeline === true ? expectAttempts(await jobs.show(job)) : null;
    const found = await jobs.history(job);
    return {
      objects: () => found.entries.map(entryJson),
      lines: () => historyText(found, timeline, layoutOf(cli)),
    };
  };
  return printEachJob(cli, flags, args, textOf, () => restartIfKilled(cli, createWaker(cli)));
}

interface ReplayFlags extends JobFlags, PassQuery {}

/** 1 if this version decides a pass differently. */
export async function replay(
  cli: Cli,
  { attempt, decide, ...flags }: ReplayFlags & GlobalFlags,
  ...args: readonly string[]
): Promise<number> {
  let differs = false;
  const textOf: Parameters<typeof printEachJob>[3] = async (job, jobs) => {
    const [list, { passJson, replayLines }] = await Promise.all([
      jobs.passes(job, { attempt, decide }),
      import('../render/replay.ts'),
    ]);
    differs ||= list.passes.some(({ differences }) => differences.length > 0);
    return {
      objects: () => list.passes.map((pass) => passJson(list, pass)),
      lines: () => replayLines(list, decide === true, layoutOf(cli), cli.io.version),
    };
  };
  const code = await printEachJob(cli, flags, args, textOf, () => restartIfKilled(cli, createWaker(cli)));
  return Math.max(code, differs ? exitCode.failed : exitCode.ok);
}

/** A stored event has fields for programs; a job in a cluster has only messages. */
function entryJson({ at, message, event }: HistoryEntry): Output {
  return event ?? { at, message: message ?? '' };
}
