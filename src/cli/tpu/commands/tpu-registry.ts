// The registry of TPUs and their aliases.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { didYouMean } from '../../../catalogue/did-you-mean.ts';
import { normalizeName, parseName } from '../../../lab/names.ts';
import { parseAccelerator, aliasesOf, isTpuName, type LabTpu, tpuFromName } from '../../../lab/tpus.ts';
import type { LabStore } from '../../../lab/lab-store.ts';
import { confirm } from '../../prompt.ts';
import { escapeLine } from '../../../app/format.ts';
import { confirmDespite, printList } from '../terminal.ts';
import { requiredText, type TpuCli, requiredTpu, type ParsedArguments, namesInUse } from '../command.ts';

export async function listTpuAliases(cli: TpuCli): Promise<number> {
  const { store } = cli.lab;
  const [tpus, byAlias] = await Promise.all([store.tpus(), store.tpuAliases()]);
  const dangling = [...byAlias].filter(([, full]) => !tpus.some(({ name }) => name === full));
  return printList(cli, tpus, {
    json: (tpu) => ({ ...tpu, aliases: aliasesOf(tpu.name, byAlias) }),
    emptyMessage: 'No TPU is known yet. `tpu -ta v2-32-1 FULL_NAME zone=ZONE` registers one with an alias.',
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
  if (meant !== undefined) {
    throw new JobmanError(`${name} is an alias itself; say the full name: tpu -ta ${alias} ${meant}`, exitCode.usage);
  }
  const before = use.tpuAliases.get(alias);
  if (before !== undefined && before !== name) {
    const fact = `${alias} is ${before} now, for everybody.`;
    if (!(await confirmDespite(cli, fact, `Should it be ${name}?`))) return exitCode.failed;
  }
  const isNew = !use.tpus.includes(name);
  const tpu = await store.transaction(async (transaction) => {
    const known = await registerTpu(transaction, name, args);
    await transaction.setTpuAlias(alias, name);
    return known;
  });
  cli.printSentence(`${alias} is ${name}${isNew ? `, which is registered now: ${formatTpu(tpu)}` : ''}.`);
  if (tpu.zone === null) cli.note(`note: Its zone is not known; \`tpu register ${name} zone=...\` says it.`);
  return exitCode.ok;
}

export async function register(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const name = requiredText(args, 'full');
  const tpu = await registerTpu(cli.lab.store, name, args);
  cli.printSentence(`${name} is registered: ${formatTpu(tpu)}.`);
  if (tpu.zone === null) cli.note('note: Its zone is not known yet; zone= says it.');
  return exitCode.ok;
}

const unknownFields = { project: null, zone: null, pricing: 'ondemand', runtimeVersion: null } as const;

/** Stores the fields that the line gives. Other fields keep their value, or follow from the name. */
async function registerTpu(store: LabStore, name: string, args: ParsedArguments): Promise<LabTpu> {
  const { zone, type, pricing, project, version } = args.keys;
  if (!isTpuName(name)) {
    throw new JobmanError(
      `\`${escapeLine(name)}\` is no full name of a TPU: those have small letters, digits and dashes, at most 63.`,
      exitCode.usage,
    );
  }
  if (zone !== undefined && !/^[a-z]+(-[a-z]+)+\d+-[a-z]$/.test(zone)) {
    throw new JobmanError(`\`${escapeLine(zone)}\` is no zone, such as us-central2-b.`, exitCode.usage);
  }
  const accelerator = type === undefined ? undefined : parseAccelerator(type);
  if (accelerator === null) {
    throw new JobmanError(`\`${escapeLine(type ?? '')}\` is no type of TPU, such as v2-32 or v5e-8.`, exitCode.usage);
  }
  let known: LabTpu | undefined;
  await store.changeTpu(name, (before) => {
    const base =
      before ?? tpuFromName(name) ?? (accelerator === undefined ? null : { ...unknownFields, name, accelerator });
    if (base === null) {
      throw new JobmanError(
        `The name ${name} does not tell the type of the TPU. Say it: type=v2-32. Nothing was changed.`,
        exitCode.usage,
      );
    }
    known = {
      ...base,
      ...(zone === undefined ? {} : { zone }),
      ...(accelerator === undefined ? {} : { accelerator }),
      // The command's row allows no other values.
      ...(pricing === undefined ? {} : { pricing: pricing as LabTpu['pricing'] }),
      ...(project === undefined ? {} : { project }),
      ...(version === undefined ? {} : { runtimeVersion: version }),
    };
    return known;
  });
  if (known === undefined) throw new Error(`the record changed ${name} without asking how`);
  return known;
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
    const guess = near === undefined ? ' `tpu -lta` shows them.' : ` Did you mean ${near}?`;
    throw new JobmanError(`There is no TPU alias ${escapeLine(alias)}.${guess}`, exitCode.notFound);
  }
  await store.setTpuAlias(alias, null);
  cli.printSentence(`${alias} is no alias any more; it was ${name}, which stays registered.`);
  return exitCode.ok;
}

export async function unregister(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const { name } = requiredTpu(args);
  const { store } = cli.lab;
  const aliases = aliasesOf(name, await store.tpuAliases());
  const also = aliases.length === 0 ? '' : ` with ${aliases.join(', ')}`;
  const isMeant = await confirm(cli, `Forget ${name}${also}?`, `${name} would be forgotten${also}.`);
  if (!isMeant) return exitCode.failed;
  await store.transaction(async (transaction) => {
    for (const alias of aliases) await transaction.setTpuAlias(alias, null);
    await transaction.changeTpu(name, () => null);
    await transaction.changeBooking(name, (booking) => (booking?.status === 'gone' ? null : booking));
  });
  cli.printSentence(`${name} is not registered any more; the TPU itself stays as it is.`);
  return exitCode.ok;
}
