// The registry of TPUs: which there are, what is known of each, and what people call them.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { didYouMean } from '../../../catalogue/did-you-mean.ts';
import { kept, newName } from '../../../lab/names.ts';
import { acceleratorCalled, aliasesOf, isTpuName, type LabTpu, tpuNamed } from '../../../lab/tpus.ts';
import type { LabRecord } from '../../../lab/record.ts';
import { confirm } from '../../prompt.ts';
import { inertWord } from '../../../app/figures.ts';
import { confirmDespite, printList } from '../terminal.ts';
import { textOf, type TpuCli, tpuOf, type Words, wordsInUse } from '../command.ts';

export async function listTpuAliases(desk: TpuCli): Promise<number> {
  const { record } = desk.lab;
  const [tpus, byAlias] = await Promise.all([record.tpus(), record.tpuAliases()]);
  const lost = [...byAlias].filter(([, full]) => !tpus.some(({ name }) => name === full));
  return printList(desk, tpus, {
    json: (tpu) => ({ ...tpu, aliases: aliasesOf(tpu.name, byAlias) }),
    none: 'No TPU is known yet. `tpu -ta v2-32-1 FULL_NAME zone=ZONE` registers one with an alias.',
    headings: ['ALIAS', 'TPU', 'TYPE', 'ZONE', 'PRICING'],
    cells: ({ name, accelerator, zone, pricing }) => [
      aliasesOf(name, byAlias).join(', ') || '-',
      name,
      accelerator,
      zone ?? '-',
      pricing,
    ],
    more: lost.map(([alias, full]) => [alias, full, 'not registered', '-', '-']),
  });
}

export async function addTpuAlias(desk: TpuCli, words: Words): Promise<number> {
  const use = await wordsInUse(desk);
  const alias = newName('TPU alias', textOf(words, 'alias'), use);
  const name = textOf(words, 'full');
  const { record } = desk.lab;
  // An alias of an alias would lead elsewhere as soon as that one is changed.
  const meant = use.tpuAliases.get(name);
  if (meant !== undefined) {
    throw new JobmanError(`${name} is an alias itself; say the full name: tpu -ta ${alias} ${meant}`, exitCode.usage);
  }
  const before = use.tpuAliases.get(alias);
  if (before !== undefined && before !== name) {
    const fact = `${alias} is ${before} now, for everybody.`;
    if (!(await confirmDespite(desk, fact, `Should it be ${name}?`))) return exitCode.failed;
  }
  const isNew = !use.tpus.includes(name);
  const tpu = await record.together(async (together) => {
    const known = await registered(together, name, words);
    await together.setTpuAlias(alias, name);
    return known;
  });
  desk.tell(`${alias} is ${name}${isNew ? `, which is registered now: ${facts(tpu)}` : ''}.`);
  if (tpu.zone === null) desk.note(`note: Its zone is not known; \`tpu register ${name} zone=...\` says it.`);
  return exitCode.ok;
}

export async function register(desk: TpuCli, words: Words): Promise<number> {
  const name = textOf(words, 'full');
  const tpu = await registered(desk.lab.record, name, words);
  desk.tell(`${name} is registered: ${facts(tpu)}.`);
  if (tpu.zone === null) desk.note('note: Its zone is not known yet; zone= says it.');
  return exitCode.ok;
}

const blank = { project: null, zone: null, pricing: 'ondemand', runtimeVersion: null } as const;

/** Writes down what the line says of that TPU; what it does not say stays as it was, or is what the name tells. */
async function registered(record: LabRecord, name: string, words: Words): Promise<LabTpu> {
  const { zone, type, pricing, project, version } = words.keys;
  if (!isTpuName(name)) {
    throw new JobmanError(
      `\`${inertWord(name)}\` is no full name of a TPU: those have small letters, digits and dashes, at most 63.`,
      exitCode.usage,
    );
  }
  if (zone !== undefined && !/^[a-z]+(-[a-z]+)+\d+-[a-z]$/.test(zone)) {
    throw new JobmanError(`\`${inertWord(zone)}\` is no zone, such as us-central2-b.`, exitCode.usage);
  }
  const accelerator = type === undefined ? undefined : acceleratorCalled(type);
  if (accelerator === null) {
    throw new JobmanError(`\`${inertWord(type ?? '')}\` is no type of TPU, such as v2-32 or v5e-8.`, exitCode.usage);
  }
  let known: LabTpu | undefined;
  await record.changeTpu(name, (before) => {
    const begun = before ?? tpuNamed(name) ?? (accelerator === undefined ? null : { ...blank, name, accelerator });
    if (begun === null) {
      throw new JobmanError(
        `The name ${name} does not tell the type of the TPU. Say it: type=v2-32. Nothing was changed.`,
        exitCode.usage,
      );
    }
    known = {
      ...begun,
      ...(zone === undefined ? {} : { zone }),
      ...(accelerator === undefined ? {} : { accelerator }),
      // The row of the command allows no other words.
      ...(pricing === undefined ? {} : { pricing: pricing as LabTpu['pricing'] }),
      ...(project === undefined ? {} : { project }),
      ...(version === undefined ? {} : { runtimeVersion: version }),
    };
    return known;
  });
  if (known === undefined) throw new Error(`the record changed ${name} without asking how`);
  return known;
}

function facts({ accelerator, zone, pricing }: LabTpu): string {
  return `${accelerator}, ${pricing}, ${zone === null ? 'zone unknown' : `in ${zone}`}`;
}

export async function delTpuAlias(desk: TpuCli, words: Words): Promise<number> {
  const alias = kept(textOf(words, 'alias'));
  const { record } = desk.lab;
  const all = await record.tpuAliases();
  const name = all.get(alias);
  if (name === undefined) {
    const near = didYouMean(alias, [...all.keys()]);
    const guess = near === undefined ? ' `tpu -lta` shows them.' : ` Did you mean ${near}?`;
    throw new JobmanError(`There is no TPU alias ${inertWord(alias)}.${guess}`, exitCode.notFound);
  }
  await record.setTpuAlias(alias, null);
  desk.tell(`${alias} is no alias any more; it was ${name}, which stays registered.`);
  return exitCode.ok;
}

export async function unregister(desk: TpuCli, words: Words): Promise<number> {
  const { name } = tpuOf(words);
  const { record } = desk.lab;
  const aliases = aliasesOf(name, await record.tpuAliases());
  const also = aliases.length === 0 ? '' : ` with ${aliases.join(', ')}`;
  const isMeant = await confirm(desk, `Forget ${name}${also}?`, `${name} would be forgotten${also}.`);
  if (!isMeant) return exitCode.failed;
  await record.together(async (together) => {
    for (const alias of aliases) await together.setTpuAlias(alias, null);
    await together.changeTpu(name, () => null);
    await together.changeBooking(name, (booking) => (booking?.status === 'gone' ? null : booking));
  });
  desk.tell(`${name} is not registered any more; the TPU itself stays as it is.`);
  return exitCode.ok;
}
