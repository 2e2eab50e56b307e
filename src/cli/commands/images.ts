import { exitCode, usageError } from '../../app/errors.ts';
import { formatAge, pluralize, escapeForTerminal, escapeLine } from '../../app/format.ts';
import type { CachedResult, ImageArtifact, ImageDetails, ImageRow } from '../../app/images.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { fittedTable, labelled, type Column } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import { minute, second, type Instant } from '../../core/model/time.ts';

export async function images(cli: Cli, flags: { readonly refresh?: boolean | undefined }): Promise<number> {
  const found = await (await cli.services.client()).images({ refresh: flags.refresh === true });
  const { value: rows, fetchedAt, server } = found;
  if (cli.json) cli.printJsonLines(rows.map((row) => ({ ...row, fetchedAt })));
  else if (rows.length > 0) {
    const columns: readonly Column<ImageRow>[] = [
      { title: 'IMAGE', text: ({ name }) => name },
      { title: 'UPDATED', side: 'right', text: ({ updatedAt }) => formatSince(updatedAt, cli.io.now()) },
      { title: 'TAGS', text: ({ tags }) => tags.join(', ') || '-' },
    ];
    cli.printAll(fittedTable(columns, rows, [], columnsOf(cli.io.stdout)));
  }
  if (!cli.json) cli.note(`${pluralize(rows.length, 'image')} on ${server}`);
  noteAge(cli, found);
  return exitCode.ok;
}

function formatSince(at: Instant | null, now: Instant): string {
  return at === null ? '-' : formatAge(now - at);
}

interface ImageDetailsFlags {
  readonly image?: string | undefined;
  readonly refresh?: boolean | undefined;
}

const maxRows = 20;

export async function imageDetails(
  cli: Cli,
  flags: ImageDetailsFlags & GlobalFlags,
  argument: string | undefined,
): Promise<number> {
  const image = flags.image ?? argument;
  if (image === undefined || (flags.image !== undefined && argument !== undefined)) {
    throw usageError('Which image? jobman image-details -i <name>', ['`jobman images` shows them.']);
  }
  const found = await (await cli.services.client()).image(image, { refresh: flags.refresh === true });
  const { value: details, fetchedAt, server } = found;
  if (cli.json) cli.printJson({ ...details, server, fetchedAt });
  else cli.io.stdout.write(`${linesOf(cli, details, server).join('\n')}\n`);
  noteAge(cli, found);
  return exitCode.ok;
}

function linesOf({ io, screen }: Cli, details: ImageDetails, server: string): readonly string[] {
  const { name, project, repository, description, pullCount, artifacts } = details;
  const columns = columnsOf(io.stdout);
  const shown = artifacts.slice(0, maxRows);
  const more = artifacts.length - shown.length;
  const text = description.trimEnd();
  return [
    screen.styleOut('bold', escapeLine(name)),
    ...labelled(
      [
        ['where', `${new URL(server).host}/${project}/${repository}`],
        ['pulled', pluralize(pullCount, 'time')],
      ],
      columns,
    ),
    ...(shown.length === 0 ? [] : fittedTable(artifactColumns(io.now()), shown, [], columns)),
    ...(more === 0 ? [] : [`and ${more} older`]),
    '',
    ...(text === '' ? ['It has no description.'] : text.split(/\r?\n/).map((line) => escapeForTerminal(line))),
  ];
}

const artifactColumns = (now: Instant): readonly Column<ImageArtifact>[] => [
  { title: 'TAGS', text: ({ tags }) => tags.join(', ') || '-' },
  { title: 'DIGEST', text: ({ digest }) => digest.slice(0, digest.indexOf(':') + 13) },
  { title: 'SIZE', side: 'right', text: ({ bytes }) => (bytes === null ? '-' : formatRegistrySize(bytes)) },
  { title: 'PUSHED', side: 'right', text: ({ pushedAt }) => formatSince(pushedAt, now) },
  { title: 'FOR', text: ({ platforms }) => platforms.join(', ') || '-' },
];

function formatRegistrySize(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(bytes, 1)) / 3)));
  const amount = bytes / 1_000 ** power;
  return `${amount < 10 && power > 0 ? amount.toFixed(1) : Math.floor(amount)} ${units[power] ?? ''}`;
}

function noteAge(cli: Cli, { fetchedAt, staleReason }: CachedResult<unknown>): void {
  const age = cli.io.now() - fetchedAt;
  if (staleReason !== null) cli.note(`This copy is ${formatAge(age)} old. ${staleReason}`);
  else if (age >= second) cli.note(`Checked ${formatAge(age)} ago${age < minute ? '' : '; --refresh checks again'}.`);
}
