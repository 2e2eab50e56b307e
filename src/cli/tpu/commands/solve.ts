// solve: finds out what is wrong with a TPU and repairs it, causes first. After each repair it looks again; what did not help is
// not repeated.

import { setTimeout as pause } from 'node:timers/promises';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { minute, second } from '../../../core/time.ts';
import { askPython, type Finding, findings, gatherFacts, hasWorkers, type SolveFacts } from '../../../lab/solve.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { wandbKey } from '../../../lab/site-setup.ts';
import { confirm } from '../../prompt.ts';
import { inertWord } from '../../../app/figures.ts';
import { applyRemedies, atDesk, confirmUse, hasFailed, known, wandbOf, type AtDesk } from '../at-desk.ts';
import { bookExistence } from '../begin-job.ts';
import type { TpuBody, TpuCli } from '../command.ts';

/** Limit of a wait for something that comes by itself. */
const waitMost = 10 * minute;

export const solve: TpuBody = (cli, words) =>
  atDesk(cli, words, async (at) => {
    const { tpu } = at;
    const key = await wandbKey(at.site, cli.io.env);
    const tried = new Set<string>();
    const until = performance.now() + waitMost;
    for (;;) {
      const facts = await look(at, key !== null);
      const { made } = known(tpu, facts.state);
      const wrong = findings(facts);
      if (words.flags.has('dry-run')) return dryVerdict(cli, tpu, wrong);
      const next = wrong.find((one) => isWorthTrying(one, tried, until));
      if (next === undefined) return verdict(cli, tpu, wrong, tried);
      tried.add(next.name);
      const line = `${next.name}: ${inertWord(next.says)}`;
      if (cli.json) at.say(line);
      else cli.print(line);
      const isDone = await repair(at, next, { key, made });
      if (!isDone) at.say(`${next.name}: not repaired`);
    }
  });

/** Python comes last: while anything else is wrong its answer would say no more. */
async function look(at: AtDesk, hasKey: boolean): Promise<SolveFacts> {
  const { tpu, tpus, site, signal, cli } = at;
  const facts = await gatherFacts(tpus, tpu, { site, hasKey, now: () => cli.io.now(), signal });
  const isWell = hasWorkers(facts.state) && findings(facts).length === 0;
  if (!isWell || site.python === null) return facts;
  at.say(`asking ${site.python} on the workers`);
  return { ...facts, environment: await askPython(tpus, tpu, site, signal) };
}

function isWorthTrying({ name, repair: { kind } }: Finding, tried: ReadonlySet<string>, until: number): boolean {
  if (kind === 'by hand') return false;
  if (kind === 'wait') return performance.now() < until;
  return !tried.has(name);
}

/** False when it was not done, or did not go well; what went wrong has been said. */
async function repair(
  at: AtDesk,
  finding: Finding,
  { key, made }: { readonly key: string | null; readonly made: string | undefined },
): Promise<boolean> {
  const { cli, tpu, tpus, signal, say } = at;
  const { repair: how, workers } = finding;
  try {
    switch (how.kind) {
      case 'apply':
        say(`making ${tpu.name}`);
        await tpus.apply(tpu, say, signal);
        await bookExistence(cli, tpu.name, 'free', say);
        return true;
      case 'reapply':
        if (!(await confirmUse(at, false, `Delete ${tpu.name} and make it anew`))) return false;
        await tpus.reapply(tpu, say, signal, { made });
        await bookExistence(cli, tpu.name, 'free', say);
        return true;
      case 'restart':
        if (!(await confirmUse(at, finding.name !== 'stopped', `Restart ${tpu.name}`))) return false;
        await tpus.restart(tpu, say, signal);
        return true;
      case 'script': {
        say(how.says);
        const script = `(\n${how.script}\n) 2>&1\n`;
        const answers = await tpus.onWorkers(tpu, script, { timeoutMs: how.within, signal, workers });
        for (const answer of answers) {
          const lines = answer.kind === 'no_answer' ? answer.says : answer.output.trim();
          for (const line of lines.split('\n').filter((one) => one !== '')) say(`worker ${answer.worker}: ${line}`);
        }
        return !answers.some(hasFailed);
      }
      case 'login':
        if (key === null) return false;
        say(how.says);
        return await applyRemedies(at, [wandbOf(key)]);
      case 'end': {
        if (!(await confirm(cli, `End what holds its devices?`, `${finding.says}.`))) return false;
        const pids = how.holders.map(({ worker, pid }) => ({ worker, pid }));
        const { left, missed } = await tpus.end(tpu, { folders: [], pids, graceMs: 10 * second }, signal);
        for (const one of left) say(`process ${one.pid} on worker ${one.worker} does not die`);
        for (const one of missed) say(`worker ${one.worker}: ${one.says}`);
        return left.length === 0 && missed.length === 0;
      }
      case 'wait':
        say(`waiting for it`);
        await pause(Math.min(how.length, 5 * second), undefined, { signal }).catch(() => undefined);
        if (signal.aborted) throw new JobmanError(`Interrupted: ${finding.says}.`, exitCode.interrupted);
        return true;
      case 'by hand':
        return false;
    }
  } catch (error) {
    // A refusal of the cloud fails this step only. An interruption, or a question without a terminal, ends the command.
    if (!(error instanceof JobmanError) || error.code === exitCode.interrupted || error.code === exitCode.usage)
      throw error;
    for (const line of [error.message, ...error.lines]) cli.complain(inertWord(line));
    return false;
  }
}

function dryVerdict(cli: TpuCli, tpu: LabTpu, wrong: readonly Finding[]): number {
  for (const one of wrong) {
    if (cli.json) cli.print(JSON.stringify({ tpu: tpu.name, ...one, repair: wordsOf(one) }));
    else {
      cli.print(`${one.name}: ${inertWord(one.says)}`);
      cli.print(`  would: ${inertWord(wordsOf(one))}`);
    }
  }
  if (wrong.length > 0) return exitCode.failed;
  if (!cli.json) cli.tell(`${tpu.name}: nothing is wrong that can be seen.`);
  return exitCode.ok;
}

function wordsOf({ repair: how, workers }: Finding): string {
  const where = workers.length === 0 ? '' : ` on worker${workers.length === 1 ? '' : 's'} ${workers.join(', ')}`;
  switch (how.kind) {
    case 'apply':
      return 'create it';
    case 'reapply':
      return 'delete it and create it anew';
    case 'restart':
      return 'restart its machines';
    case 'script':
    case 'login':
      return `${how.says}${where}`;
    case 'end':
      return `end ${how.holders.length === 1 ? 'that program' : `those ${how.holders.length} programs`}, after a question`;
    case 'wait':
      return 'wait for it';
    case 'by hand':
      return `nothing; ${how.says}`;
  }
}

function verdict(cli: TpuCli, tpu: LabTpu, wrong: readonly Finding[], tried: ReadonlySet<string>): number {
  const isWell = wrong.length === 0;
  if (cli.json) {
    const left = wrong.map(({ name, says, workers }) => ({ name, says, workers }));
    cli.print(JSON.stringify({ tpu: tpu.name, isWell, tried: [...tried], left }));
  } else if (isWell) {
    const how = tried.size === 0 ? 'nothing is wrong that can be seen' : `it is well again (${[...tried].join(', ')})`;
    cli.tell(`${tpu.name}: ${how}.`);
  } else {
    cli.tell(`${tpu.name} is not well:`);
    for (const one of wrong)
      cli.print(`  ${one.name}: ${inertWord(`${one.says}${handWords(tpu, one, tried.has(one.name))}`)}`);
  }
  return isWell ? exitCode.ok : exitCode.failed;
}

function handWords({ name }: LabTpu, { repair: how }: Finding, isTried: boolean): string {
  if (how.kind === 'by hand') return `; ${how.says}`;
  if (!isTried) return '';
  // A machine that does not come back by itself is exchanged; whether it may be is for a person to say.
  const further = how.kind === 'restart' ? `; \`tpu reapply ${name}\` makes it anew` : '';
  return `; what was tried did not help${further}`;
}
