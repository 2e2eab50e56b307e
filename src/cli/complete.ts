// One candidate per line, with its summary after a tab. An expected error proposes nothing.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import type { Argument, PartialLine, Proposal } from './command.ts';
import { formatProposals, proposalsOf, serverNames } from './completion/proposals.ts';
import { findCommand } from './find-command.ts';
import { formsOf, globalFlags, type Flags } from './flags.ts';
import { countLeadingGlobals, splitFlags } from './scan.ts';
import { jobmanProgram as program } from './table.ts';

export async function propose(args: readonly string[], services: Services): Promise<number> {
  const partial = args.at(-1) ?? '';
  let proposals: readonly Proposal[] = [];
  try {
    proposals = await proposalsFor(args.slice(0, -1), partial, services);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
  }
  const wantsFlag = partial.startsWith('-');
  const wanted = proposals.filter(({ value }) => value.startsWith(partial) && value.startsWith('-') === wantsFlag);
  services.io.stdout.write(formatProposals(wanted));
  return exitCode.ok;
}

async function proposalsFor(
  before: readonly string[],
  partial: string,
  services: Services,
): Promise<readonly Proposal[]> {
  const globals: Flags = { ...globalFlags, server: { ...globalFlags.server, propose: serverNames } };
  const start = countLeadingGlobals(before);
  const ofProgram = start > before.length ? splitFlags(globals, before).pendingFlag : undefined;
  if (ofProgram !== undefined) return proposalsOf(globals[ofProgram], { services, program, args: [], partial });
  if (before.length === start) return [...commandNames(''), tpu, ...flagForms(globalFlags, new Map())];
  const found = findCommand(program, before);
  const line = (args: readonly string[]): PartialLine => ({ services, program, args, partial });
  if ('family' in found) {
    const verbs = program.commands.find(({ names, hidden }) => hidden && names[0].startsWith(`${found.family} `));
    return [...commandNames(`${found.family} `), ...(await proposalsOf(verbs?.args[0], line([])))];
  }
  if (!('command' in found)) return [];
  const { command } = found;
  const flags: Flags = { ...globals, ...command.flags };
  const { given, positional, pendingFlag, hasDash } = splitFlags(flags, found.args);
  services.useServer({ named: given.get('server')?.[0] });
  const flag = pendingFlag === undefined ? undefined : flags[pendingFlag];
  if (flag !== undefined) return proposalsOf(flag, line(positional));
  const argument: Argument | undefined = command.args[positional.length] ?? command.args.findLast(({ many }) => many);
  // `storage` has the command `storage checkpoints` next to it.
  const nested = positional.length === 0 && given.size === 0 ? commandNames(`${command.names[0]} `) : [];
  return [...(hasDash ? [] : flagForms(flags, given)), ...nested, ...(await proposalsOf(argument, line(positional)))];
}

const tpu: Proposal = { value: 'tpu', summary: 'The commands of a lab that shares TPUs' };

function commandNames(front: string): readonly Proposal[] {
  const rows = new Map<string, string>();
  for (const { names, summary } of program.commands.filter(({ hidden }) => hidden !== true)) {
    for (const name of names.filter((one) => one.startsWith(front))) {
      const [first = '', second] = name.slice(front.length).split(' ');
      rows.set(first, second === undefined ? summary : (program.families[first] ?? rows.get(first) ?? ''));
    }
  }
  return [...rows].map(([value, summary]) => ({ value, summary }));
}

function flagForms(flags: Flags, given: ReadonlyMap<string, unknown>): readonly Proposal[] {
  return Object.entries(flags)
    .filter(([name, { many }]) => many === true || !given.has(name))
    .flatMap((flag) => formsOf(flag).map((value) => ({ value, summary: flag[1].summary })));
}
