// Proposals for a shell: one candidate a line, with its meaning after a tab; nothing rather than failing.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import type { Argument, PartialLine, Proposal } from './command.ts';
import { proposalLines, proposed } from './completion/proposals.ts';
import { findCommand } from './find-command.ts';
import { formsOf, globalFlags, type Flags } from './flags.ts';
import { leadingGlobals, split } from './scan.ts';
import { jobmanProgram as program } from './table.ts';

export async function propose(words: readonly string[], services: Services): Promise<number> {
  const partial = words.at(-1) ?? '';
  let proposals: readonly Proposal[] = [];
  try {
    proposals = await proposalsFor(words.slice(0, -1), partial, services);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
  }
  const wantsFlag = partial.startsWith('-');
  const wanted = proposals.filter(({ word }) => word.startsWith(partial) && word.startsWith('-') === wantsFlag);
  services.io.stdout.write(proposalLines(wanted));
  return exitCode.ok;
}

async function proposalsFor(
  before: readonly string[],
  partial: string,
  services: Services,
): Promise<readonly Proposal[]> {
  const start = leadingGlobals(before);
  if (before.length === start) return [...commandNames(''), tpu, ...flagForms(globalFlags, new Map())];
  const found = findCommand(program, before);
  const line = (args: readonly string[]): PartialLine => ({ services, program, args, partial });
  if ('family' in found) {
    const verbs = program.commands.find(({ names, hidden }) => hidden && names[0].startsWith(`${found.family} `));
    return [...commandNames(`${found.family} `), ...(await proposed(verbs?.args[0], line([])))];
  }
  if (!('command' in found)) return [];
  const { command, words } = found;
  const flags: Flags = { ...command.flags, ...globalFlags };
  const { given, plain, waiting, isOver } = split(flags, words);
  const flag = waiting === undefined ? undefined : flags[waiting];
  if (flag !== undefined) return proposed(flag, line(plain));
  const argument: Argument | undefined = command.args[plain.length] ?? command.args.findLast(({ many }) => many);
  return [...(isOver ? [] : flagForms(flags, given)), ...(await proposed(argument, line(plain)))];
}

const tpu: Proposal = { word: 'tpu', summary: 'The commands of a lab that shares its TPUs' };

function commandNames(front: string): readonly Proposal[] {
  const words = new Map<string, string>();
  for (const { names, summary } of program.commands.filter(({ hidden }) => hidden !== true)) {
    for (const name of names.filter((one) => one.startsWith(front))) {
      const [word = '', second] = name.slice(front.length).split(' ');
      words.set(word, second === undefined ? summary : (program.families[word] ?? ''));
    }
  }
  return [...words].map(([word, summary]) => ({ word, summary }));
}

function flagForms(flags: Flags, given: ReadonlyMap<string, unknown>): readonly Proposal[] {
  return Object.entries(flags)
    .filter(([name, { many }]) => many === true || !given.has(name))
    .flatMap((flag) => formsOf(flag).map((word) => ({ word, summary: flag[1].summary })));
}
