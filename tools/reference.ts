/**
 * `npm run reference` writes the tables of the reference pages from the tables of the program. A table follows a line
 * `<!-- table: name -->`. In docs/commands.md everything below `<!-- commands -->` is generated, except the text of a
 * section after `<!-- more -->`, which stays. test/docs/reference.test.ts compares.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clusterSettingKeys } from '../src/app/cluster/settings.ts';
import { defaultSettings, settingKeys } from '../src/app/settings.ts';
import type { JobmanCommand } from '../src/cli/command.ts';
import { flagName, globalFlags, type Flags } from '../src/cli/flags.ts';
import { jobmanProgram } from '../src/cli/table.ts';
import { contextFlags, jobName } from '../src/cli/table/flags.ts';
import { tpuProgram } from '../src/cli/tpu/table.ts';
import { failurePatterns } from '../src/core/model/log-lines.ts';
import { verbs } from '../src/emulator/world/verbs.ts';
import type { SettingKey } from '../src/schema/settings.ts';
import { apiFiles } from './api-schema.ts';
import { formatSchema, generateJsonPage, jsonPage, outputSchema, schemaFile } from './json-schema.ts';
import { keyReference } from './key-tables.ts';

const root = join(import.meta.dirname, '..');

/** The pages that have generated parts, from the top of the repository. */
export const referencePages: readonly string[] = [
  'docs/commands.md',
  'docs/configuration.md',
  'docs/emulator.md',
  'docs/kubernetes.md',
  'docs/recovery.md',
  'docs/server.md',
  'docs/settings.md',
  'docs/tpu.md',
];

/** The page with its generated parts as they should be. Throws for a table of an unknown name. */
export function generatePage(text: string): string {
  return generateCommands(
    text.replaceAll(/^<!-- table: (.+) -->\n(?:[|-] ?.*\n)*/gm, (_, name: string) => {
      const lines = tables[name];
      if (lines === undefined) throw new Error(`tools/reference.ts has no table "${name}".`);
      return `<!-- table: ${name} -->\n${lines().join('\n')}\n`;
    }),
  );
}

/** The column of jobs is for a section in which it differs. */
const sectionTables = Object.fromEntries(
  keyReference().map(({ section, rows }) => {
    const hasJobs = rows.some(({ jobs }) => jobs !== 'all');
    const jobCell = (text: string) => (hasJobs ? [text] : []);
    const cells = rows.map(({ key, aliases, type, defaultValue, jobs, about, example }) => [
      `${code(key)}${aliases.length === 0 ? '' : ` (also ${aliases.map(code).join(', ')})`}`,
      type,
      defaultValue,
      ...jobCell(jobs),
      about,
      example === undefined ? '' : code(example),
    ]);
    const heading = ['Key', 'Type', 'When not given', ...jobCell('Jobs'), 'Meaning', 'Example'];
    return [`manifest ${section}`, () => table(heading, cells)];
  }),
);

const jobFlags: Flags = { jobName, ...contextFlags };

/** One table for each group of commands of `tpu`. */
const tpuTables = Object.fromEntries(
  tpuProgram.groups.map((group) => [
    `tpu ${group}`,
    () =>
      table(
        ['Command', 'Other names', 'What it does'],
        tpuProgram.commands
          .filter((row) => row.group === group && row.hidden !== true)
          .map(({ names: [first, ...others], usage, summary }) => [
            code(`tpu ${first} ${usage}`.trim()),
            others.map(code).join(', '),
            summary,
          ]),
      ),
  ]),
);

/** Defaults that a value does not explain. */
const defaultTexts: Readonly<Record<string, string>> = {
  'tpu.endpoint': "Google's",
  'local.slots': 'one for each GPU of `local.gpus`, otherwise one for each processor',
  'lab.python': '`python3`',
  'lab.namePrefix': 'nothing',
};

const tables: Readonly<Record<string, () => readonly string[]>> = {
  ...sectionTables,
  ...tpuTables,
  settings: () =>
    table(
      ['Key', 'When not given', 'What it does', 'Variable'],
      settingKeys.map((one) => [
        code(one.key),
        settingDefault(one, defaultSettings(4)),
        one.description,
        one.envVariable === undefined ? '' : code(one.envVariable),
      ]),
    ),
  'cluster settings': () =>
    table(
      ['Key', 'When not given', 'What it does'],
      clusterSettingKeys.map((one) => [code(one.key), settingDefault(one, {}), one.description]),
    ),
  'emulator verbs': () =>
    table(
      ['Verb', 'What it does'],
      Object.entries(verbs).map(([verb, { description }]) => [code(verb), description]),
    ),
  'commands of this machine': () => {
    const familyOf = (one: { readonly names: readonly string[] }) => one.names[0]?.split(' ')[0];
    const isHere = ({ usesHome }: { readonly usesHome?: unknown }) => usesHome !== undefined;
    // A family of which all commands are here has one entry.
    const names = jobmanProgram.commands.filter(isHere).map((command) => {
      const family = jobmanProgram.commands.filter((one) => familyOf(one) === familyOf(command));
      return (family.every(isHere) ? familyOf(command) : command.names[0]) ?? '';
    });
    return [`- ${[...new Set(names)].map(code).join(', ')}`];
  },
  'tpu commands of the login machine': () => {
    const names = tpuProgram.commands
      .filter(({ needsLoginMachine, takes, hidden }) => hidden !== true && (needsLoginMachine || takes.raw === true))
      .map(({ names: [name] }) => name);
    return [`- ${names.map(code).join(', ')}`];
  },
  'flags of every command': () => flagTable(globalFlags),
  'flags of commands on jobs': () => flagTable(jobFlags),
  evidence: () =>
    table(
      ['evidence', 'means', 'the log has'],
      failurePatterns.map(({ name, meaning, anyOf }) => [code(name), meaning, anyOf.map(code).join(', ')]),
    ),
};

function code(text: string): string {
  return `\`${text}\``;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  return [
    `| ${head.join(' | ')} |`,
    `|${'---|'.repeat(head.length)}`,
    ...rows.map(
      (cells) => `|${cells.map((cell) => ` ${cell.replaceAll('|', String.raw`\|`)}`.trimEnd()).join(' |')} |`,
    ),
  ];
}

function settingDefault({ key, defaultValue }: SettingKey, settings: object): string {
  const computed = key
    .split('.')
    .reduce<unknown>((value, name) => (value as Readonly<Record<string, unknown>> | undefined)?.[name], settings);
  const value = defaultValue ?? computed;
  if (defaultTexts[key] !== undefined) return defaultTexts[key];
  if (
    value === null ||
    value === undefined ||
    value === '' ||
    (typeof value === 'object' && Object.keys(value).length === 0)
  )
    return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The sections of docs/commands.md in the order of the help. */
function generateCommands(text: string): string {
  const marker = '<!-- commands -->\n';
  const [head = '', body] = text.split(marker);
  if (body === undefined) return text;
  const prose = new Map(
    body
      .split(/^### /m)
      .slice(1)
      .map((section) => {
        const heading = section.slice(0, section.indexOf('\n'));
        const more = section.split('<!-- more -->\n')[1]?.split(/^## /m)[0]?.trim();
        return [heading, more] as const;
      }),
  );
  const sections = jobmanProgram.groups.flatMap((group) => [
    `## ${group}`,
    ...jobmanProgram.commands.filter((one) => one.group === group).map((one) => commandSection(one, prose)),
  ]);
  return `${head}${marker}\n${sections.join('\n\n')}\n`;
}

function commandSection(command: JobmanCommand, prose: ReadonlyMap<string, string | undefined>): string {
  const { names, hidden, usage, summary, about, examples } = command;
  const [name, ...others] = names;
  const heading = hidden === true ? `${name.split(' ')[0]} <verb>` : name;
  const typed = hidden === true ? name.split(' ')[0] : name;
  const more = prose.get(heading);
  const parts = [
    `### ${heading}`,
    `\`\`\`\njobman ${typed} ${usage}`.trimEnd() + '\n```',
    [`${summary}.`, ...(others.length === 0 ? [] : [`Other names: ${others.map(code).join(', ')}.`])].join(' '),
    about ?? '',
    flagText(command),
    `\`\`\`sh\n${examples.map(([line, meaning]) => `${line}   # ${meaning}`).join('\n')}\n\`\`\``,
    codeText(command),
    more === undefined ? '' : `<!-- more -->\n${more}`,
  ];
  return parts.filter((part) => part !== '').join('\n\n');
}

function codeText({ names, exitCodes = {} }: JobmanCommand): string {
  const same = jobmanProgram.commands.find((one) => one.exitCodes === exitCodes);
  if (same !== undefined && same.names !== names)
    return `The exit codes are those of [${same.names[0]}](#${same.names[0]}).`;
  const rows = Object.entries(exitCodes).map(([number, meaning]) => `- ${number}: ${meaning}.`);
  return rows.length === 0 ? '' : `Exit codes:\n\n${rows.join('\n')}`;
}

/** Flags that many commands share are described once, at the top of the page. */
function flagText({ names, flags }: JobmanCommand): string {
  const entries = Object.entries(flags);
  const same = jobmanProgram.commands.find((one) => one.flags === flags);
  if (entries.length > 0 && same !== undefined && same.names !== names)
    return `The flags are those of [${same.names[0]}](#${same.names[0]}).`;
  const own = entries.filter(([name, flag]) => jobFlags[name] !== flag);
  const shared = entries.filter(([name, flag]) => jobFlags[name] === flag).map(([name]) => code(flagName(name)));
  const text =
    shared.length === 0
      ? ''
      : `${own.length === 0 ? 'Flags' : 'Also'}: ${shared.join(', ')} ([names of jobs](#names-of-jobs)).`;
  return [flagTable(Object.fromEntries(own)).join('\n'), text].filter((part) => part !== '').join('\n\n');
}

function flagTable(flags: Flags): readonly string[] {
  const rows = Object.entries(flags).map(([name, { summary, also = [], value }]) => {
    const letter = also.find((form) => form.length === 1);
    const form = `${flagName(name)}${value === undefined ? '' : ` ${value}`}`;
    return [`${letter === undefined ? '' : `\`-${letter}\`, `}${code(form)}`, summary];
  });
  return rows.length === 0 ? [] : table(['Flag', 'Meaning'], rows);
}

if (import.meta.main) {
  const schema = outputSchema();
  writeFileSync(join(root, schemaFile), formatSchema(schema));
  writeFileSync(join(root, jsonPage), generateJsonPage(readFileSync(join(root, jsonPage), 'utf8'), schema));
  for (const [path, text] of Object.entries(apiFiles())) writeFileSync(join(root, path), text);
  for (const page of referencePages) {
    const path = join(root, page);
    writeFileSync(path, generatePage(readFileSync(path, 'utf8')));
  }
}
