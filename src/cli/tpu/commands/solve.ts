// solve: finds out what is wrong with a TPU and puts it right, step by step, the cause before what follows from it. What is
// repaired is looked at again; what did not help is not tried twice.

import { setTimeout as pause } from 'node:timers/promises';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { minute, second } from '../../../core/time.ts';
import { askPython, gatherFacts } from '../../../lab/gather.ts';
import { findings, hasWorkers } from '../../../lab/solve.ts';
import type { Finding, SolveFacts } from '../../../lab/solve.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { wandbKey } from '../../../lab/wandb-key.ts';
import { confirm } from '../../prompt.ts';
import { inertWord } from '../../render/inert.ts';
import { applyRemedy, atDesk, confirmUse, unknownState, wandbOf } from '../at-desk.ts';
import type { AtDesk } from '../at-desk.ts';
import { bookExistence } from '../book-attempt.ts';
import type { TpuCli } from '../tpu-cli.ts';
import { tpuOf, type Words } from '../words.ts';

/** Limit of a wait for something that comes by itself. */
const waitMost = 10 * minute;

export async function solve(cli: TpuCli, words: Words): Promise<number> {
  const tpu = tpuOf(words);
  const isDry = words.flags.has('dry-run');
  return atDesk(cli, async (at) => {
    const key = await wandbKey(at.site, cli.io.env);
    /** By case: how often it was tried. */
    const tried = new Map<string, number>();
    const until = performance.now() + waitMost;
    for (;;) {
      const facts = await look(at, tpu, key !== null);
      if (facts.state.kind === 'unknown') throw unknownState(tpu, facts.state.says);
      const wrong = findings(facts);
      if (isDry) return dryVerdict(cli, tpu, wrong);
      const next = wrong.find((one) => isWorthTrying(one, tried, until));
      if (next === undefined) return verdict(cli, tpu, wrong, tried);
      tried.set(next.name, (tried.get(next.name) ?? 0) + 1);
      const line = `${next.name}: ${inertWord(next.says)}`;
      if (cli.json) at.say(line);
      else cli.print(line);
      const isDone = await repair(at, tpu, next, { key, made: facts.state.made });
      if (!isDone) at.say(`${next.name}: not repaired`);
    }
  });
}

/** Python comes last: while anything else is wrong its answer would say no more. */
async function look(at: AtDesk, tpu: LabTpu, hasKey: boolean): Promise<SolveFacts> {
  const { tpus, site, signal, cli } = at;
  const facts = await gatherFacts(tpus, tpu, { site, hasKey, now: () => cli.io.now(), signal });
  const isWell = hasWorkers(facts.state) && findings(facts).length === 0;
  if (!isWell || site.python === null) return facts;
  at.say(`asking ${site.python} on the workers`);
  return { ...facts, environment: await askPython(tpus, tpu, site, signal) };
}

function isWorthTrying(
  { name, repair: { kind } }: Finding,
  tried: ReadonlyMap<string, number>,
  until: number,
): boolean {
  if (kind === 'by hand') return false;
  if (kind === 'wait') return performance.now() < until;
  return !tried.has(name);
}

/** Does what the table says. False when it was not done, or did not go well; what went wrong has been said. */
async function repair(
  at: AtDesk,
  tpu: LabTpu,
  finding: Finding,
  { key, made }: { readonly key: string | null; readonly made: string | undefined },
): Promise<boolean> {
  const { cli, tpus, signal, say } = at;
  const { repair: how, workers } = finding;
  try {
    switch (how.kind) {
      case 'apply':
        say(`making ${tpu.name}`);
        await tpus.apply(tpu, say, signal);
        await bookExistence(cli, tpu.name, 'free', say);
        return true;
      case 'reapply':
        if (!(await confirmUse(at, tpu, false, `Delete ${tpu.name} and make it anew`))) return false;
        await tpus.reapply(tpu, say, signal, made === undefined ? {} : { made });
        await bookExistence(cli, tpu.name, 'free', say);
        return true;
      case 'restart':
        if (!(await confirmUse(at, tpu, finding.name !== 'stopped', `Restart ${tpu.name}`))) return false;
        await tpus.restart(tpu, say, signal);
        return true;
      case 'script': {
        say(how.says);
        const script = `(\n${how.script}\n) 2>&1\n`;
        const answers = await tpus.onWorkers(tpu, script, { timeoutMs: how.within, signal, workers });
        const failed = answers.filter((answer) => answer.kind === 'no_answer' || answer.code !== 0);
        for (const answer of answers) {
          const lines = answer.kind === 'no_answer' ? answer.says : answer.output.trim();
          for (const line of lines.split('\n').filter((one) => one !== '')) say(`worker ${answer.worker}: ${line}`);
        }
        return failed.length === 0;
      }
      case 'login':
        if (key === null) return false;
        say(how.says);
        return await applyRemedy(at, tpu, wandbOf(key));
      case 'end': {
        const isMeant = await confirm(cli, `End what holds its devices?`, `${finding.says}.`);
        if (!isMeant) return false;
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
  if (cli.json) {
    for (const one of wrong) cli.print(JSON.stringify({ tpu: tpu.name, ...one, repair: wordsOf(one) }));
    return wrong.length === 0 ? exitCode.ok : exitCode.failed;
  }
  if (wrong.length === 0) cli.tell(`${tpu.name}: nothing is wrong that can be seen.`);
  for (const one of wrong) {
    cli.print(`${one.name}: ${inertWord(one.says)}`);
    cli.print(`  would: ${inertWord(wordsOf(one))}`);
  }
  return wrong.length === 0 ? exitCode.ok : exitCode.failed;
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

function verdict(cli: TpuCli, tpu: LabTpu, wrong: readonly Finding[], tried: ReadonlyMap<string, number>): number {
  if (cli.json) {
    const left = wrong.map(({ name, says, workers }) => ({ name, says, workers }));
    cli.print(JSON.stringify({ tpu: tpu.name, isWell: wrong.length === 0, tried: [...tried.keys()], left }));
  } else if (wrong.length === 0) {
    const done = [...tried.keys()];
    const how = done.length === 0 ? 'nothing is wrong that can be seen' : `it is well again (${done.join(', ')})`;
    cli.tell(`${tpu.name}: ${how}.`);
  } else {
    cli.tell(`${tpu.name} is not well:`);
    for (const one of wrong) {
      const hand = handWords(tpu, one, tried.has(one.name));
      cli.print(`  ${one.name}: ${inertWord(`${one.says}${hand}`)}`);
    }
  }
  return wrong.length === 0 ? exitCode.ok : exitCode.failed;
}

/** The part that is left to a person. */
function handWords({ name }: LabTpu, { repair: how }: Finding, isTried: boolean): string {
  if (how.kind === 'by hand') return `; ${how.says}`;
  if (!isTried) return '';
  // A machine that does not come back by itself is exchanged; whether it may be is for a person to say.
  const further = how.kind === 'restart' ? `; \`tpu reapply ${name}\` makes it anew` : '';
  return `; what was tried did not help${further}`;
}
