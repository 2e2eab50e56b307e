// The registry of TPUs and their aliases.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { didYouMean } from '../../../catalogue/did-you-mean.ts';
import { normalizeName } from '../../../app/user-names.ts';
import { parseName } from '../../../lab/names.ts';
import { aliasesOf, type LabTpu, parseTpuFacts } from '../../../lab/tpus.ts';
import type { SharedLabStore } from '../../../lab/lab-store.ts';
import { confirm } from '../../prompt.ts';
import { escapeLine } from '../../../app/format.ts';
import { confirmDespite, printList } from '../terminal.ts';
import { requiredText, type TpuCli, requiredTpu, type ParsedArguments, namesInUse } from '../command.ts';

export async function listTpuAliases(cli: TpuCli): Promise<number> {
  const { store } = cli.lab;
  const [tpus, byAlias] = await Promise.all([store.tpus(), store.tpuAliases()]);
  const dangling = [...byAlias].filter(([, full]) => !tpus.some(({ name }) => name === full));
  return printList(cli, tpus, {
    json: ({ name: tpu, ...facts }) => ({ tpu, ...facts, aliases: aliasesOf(tpu, byAlias) }),
    emptyMessage: 'There are no TPUs yet. `tpu add-tpu-alias v2-32-1 FULL_NAME zone=ZONE` adds one with an alias.',
    headings: ['ALIAS', 'TPU', 'TYPE', 'ZONE', 'PRICING'],
    cells: ({ name, accelerator, zone, pricing }) => [
      aliasesOf(name, byAlias).join(', ') || '-',
      name,
      accelerator,
      zone ?? '-',
      pricing,
    ],
    extraRows: dangling.map(([alias, full]) => [alias, full, 'not registered', '-', '-']),
  });
}

export async function addTpuAlias(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const use = await namesInUse(cli);
  const alias = parseName('TPU alias', requiredText(args, 'alias'), use);
  const name = requiredText(args, 'full');
  const { store } = cli.lab;
  // An alias of an alias would change its meaning with the other alias.
  const meant = use.tpuAliases.get(name);
  if (meant !== undefined)
    throw new JobmanError(
      `${name} is an alias. Use the full name: tpu add-tpu-alias ${alias} ${meant}`,
      exitCode.usage,
    );
  const before = use.tpuAliases.get(alias);
  if (before !== undefined && before !== name) {
    const fact = `${alias} is an alias of ${before}.`;
    if (!(await confirmDespite(cli, fact, `Change it to ${name} for all users?`))) return exitCode.failed;
  }
  const isNew = !use.tpus.includes(name);
  const tpu = await registerTpu(store, name, args, alias);
  if (isNew) cli.printSentence(`Registered ${name} (${formatTpu(tpu)}).`);
  cli.printSentence(`Added the alias ${alias} for ${name}.`);
  if (tpu.zone === null) cli.note(`note: Its zone is unknown; \`tpu register ${name} zone=...\` sets it.`);
  return exitCode.ok;
}

export async function register(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const name = requiredText(args, 'full');
  const tpu = await registerTpu(cli.lab.store, name, args);
  cli.printSentence(`Registered ${name} (${formatTpu(tpu)}).`);
  if (tpu.zone === null) cli.note('note: Its zone is unknown; zone= sets it.');
  return exitCode.ok;
}

async function registerTpu(
  store: SharedLabStore,
  name: string,
  args: ParsedArguments,
  alias?: string,
): Promise<LabTpu> {
  const tpu = await store.changeTpu(name, { kind: 'register', facts: parseTpuFacts(name, args.keys) }, alias);
  if (tpu === null) throw new Error(`the store has not registered ${name}`);
  return tpu;
}

function formatTpu({ accelerator, zone, pricing }: LabTpu): string {
  return `${accelerator}, ${pricing}, ${zone === null ? 'zone unknown' : `in ${zone}`}`;
}

export async function delTpuAlias(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const alias = normalizeName(requiredText(args, 'alias'));
  const { store } = cli.lab;
  const all = await store.tpuAliases();
  const name = all.get(alias);
  if (name === undefined) {
    const near = didYouMean(alias, [...all.keys()]);
    const guess = near === undefined ? ' `tpu list` shows all aliases.' : ` Did you mean ${near}?`;
    throw new JobmanError(`There is no TPU alias ${escapeLine(alias)}.${guess}`, exitCode.notFound);
  }
  await store.setTpuAlias(alias, null);
  cli.printSentence(`Removed the alias ${alias} of ${name}. The TPU stays registered.`);
  return exitCode.ok;
}

export async function unregister(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const { name } = requiredTpu(args);
  const { store } = cli.lab;
  const aliases = aliasesOf(name, await store.tpuAliases());
  const also = aliases.length === 0 ? '' : ` and its aliases ${aliases.join(', ')}`;
  const what = `${name}${also} from the registry`;
  const isMeant = await confirm(cli, `Remove ${what}?`, `This would remove ${what}.`);
  if (!isMeant) return exitCode.failed;
  await store.removeTpu(name);
  cli.printSentence(`Removed ${name} from the registry. The TPU itself was not changed.`);
  return exitCode.ok;
}
