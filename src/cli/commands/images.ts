// images, image-details: the images of the registry that the settings name, and what is written about one.

import { exitCode, usageError } from '../../app/errors.ts';
import { ageText, countText, inert, inertWord } from '../../app/figures.ts';
import type { Dated, ImageArtifact, ImageDetails, ImageRow } from '../../app/images.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { aligned, labelled } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import { minute, second } from '../../core/time.ts';

export async function images(cli: Cli, flags: { readonly refresh?: boolean | undefined }): Promise<number> {
  const port = await cli.services.images();
  try {
    const found = await port.list({ refresh: flags.refresh === true });
    const { value: rows, at } = found;
    if (cli.json) cli.printObjects(rows.map((row) => ({ ...row, asOf: at })));
    else if (rows.length > 0) {
      const now = cli.io.now();
      const table = [['IMAGE', 'UPDATED', 'TAGS'], ...rows.map((row) => cells(row, now))];
      cli.printAll(aligned(table, ['left', 'right', 'left'], columnsOf(cli.io.stdout)));
    }
    if (!cli.json) cli.note(`${countText(rows.length, 'image')} on ${port.server}`);
    noteAge(cli, found);
    return exitCode.ok;
  } finally {
    port.close();
  }
}

function cells({ name, updatedAt, tags }: ImageRow, now: number): readonly string[] {
  return [inertWord(name), updatedAt === null ? '-' : ageText(now - updatedAt), inertWord(tags.join(', ')) || '-'];
}

interface ImageDetailsFlags {
  readonly image?: string | undefined;
  readonly refresh?: boolean | undefined;
}

const rowsMost = 20;

export async function imageDetails(
  cli: Cli,
  flags: ImageDetailsFlags & GlobalFlags,
  word: string | undefined,
): Promise<number> {
  const image = flags.image ?? word;
  if (image === undefined || (flags.image !== undefined && word !== undefined)) {
    throw usageError('Which image? Say one: jobman image-details -i <name>', ['`jobman images` shows them.']);
  }
  const port = await cli.services.images();
  try {
    const found = await port.details(image, { refresh: flags.refresh === true });
    if (cli.json) cli.print(JSON.stringify({ ...found.value, server: port.server, asOf: found.at }));
    else cli.io.stdout.write(`${linesOf(cli, found.value, port.server).join('\n')}\n`);
    noteAge(cli, found);
    return exitCode.ok;
  } finally {
    port.close();
  }
}

function linesOf({ io, screen }: Cli, details: ImageDetails, server: string): readonly string[] {
  const { name, project, repository, description, pulls, artifacts } = details;
  const columns = columnsOf(io.stdout);
  const now = io.now();
  const shown = artifacts.slice(0, rowsMost);
  const more = artifacts.length - shown.length;
  const table = [['TAGS', 'DIGEST', 'SIZE', 'PUSHED', 'FOR'], ...shown.map((one) => artifactCells(one, now))];
  const text = description.trimEnd();
  return [
    screen.out('bold', inertWord(name)),
    ...labelled(
      [
        ['where', `${new URL(server).host}/${project}/${repository}`],
        ['pulled', countText(pulls, 'time')],
      ],
      columns,
    ),
    ...(shown.length === 0 ? [] : aligned(table, ['left', 'left', 'right', 'right', 'left'], columns)),
    ...(more === 0 ? [] : [`and ${more} older`]),
    '',
    ...(text === '' ? ['Nobody has written a description of it.'] : text.split(/\r?\n/).map((line) => inert(line))),
  ];
}

function artifactCells({ tags, digest, size, platforms, pushedAt }: ImageArtifact, now: number): readonly string[] {
  return [
    inertWord(tags.join(', ')) || '-',
    inertWord(digest.slice(0, digest.indexOf(':') + 13)),
    size === null ? '-' : registrySizeText(size),
    pushedAt === null ? '-' : ageText(now - pushedAt),
    inertWord(platforms.join(', ')) || '-',
  ];
}

function registrySizeText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(bytes, 1)) / 3)));
  const amount = bytes / 1_000 ** power;
  return `${amount < 10 && power > 0 ? amount.toFixed(1) : Math.floor(amount)} ${units[power] ?? ''}`;
}

function noteAge(cli: Cli, { at, because }: Dated<unknown>): void {
  const age = cli.io.now() - at;
  if (because !== null) cli.note(`This is a copy that is ${ageText(age)} old. ${because}`);
  else if (age >= second) cli.note(`As of ${ageText(age)} ago${age < minute ? '' : '; --refresh asks again'}.`);
}
