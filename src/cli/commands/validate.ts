import type { ValidateFlags } from '../table/flags.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { checkManifest, clusterProblems, printWarnings, problemJson } from '../manifest-file.ts';
import { manifestSchema } from '../../manifest/keys.ts';
import type { Program } from '../command.ts';
import { missingManifest, noteMissingCommand } from './create.ts';
import { findCommand } from '../find-command.ts';
import { formatUnknownCommand } from '../scan.ts';
import { formatProblems } from '../../schema/problems.ts';

/** Changes nothing. Exits 2 for every manifest that `create` refuses, 0 with warnings only. */
export async function validate(cli: Cli, flags: ValidateFlags & GlobalFlags, path?: string): Promise<number> {
  if (path === undefined) throw missingManifest('validate');
  const found = await checkManifest(cli, path, flags.set ?? [], { offline: flags.offline === true });
  const { warnings } = found;
  const problems = 'problems' in found ? found.problems : 'cluster' in found ? await clusterProblems(cli, found) : [];
  const code = problems.length > 0 ? exitCode.usage : exitCode.ok;
  // A check that could not be made is not a finding, but a reader of the JSON must know of it.
  const printUnchecked = (): void => {
    if (found.unchecked !== null) cli.note(`note: ${found.unchecked}.`);
  };
  if (cli.json) {
    // One object per line; a manifest without findings prints nothing.
    cli.printJsonLines([
      ...problems.map((problem) => ({ severity: 'problem' as const, ...problemJson(path, problem) })),
      ...warnings.map((warning) => ({ severity: 'warning' as const, ...problemJson(path, warning) })),
    ]);
    printUnchecked();
    return code;
  }
  printWarnings(cli, path, warnings);
  for (const line of formatProblems(path, problems)) cli.printStderr(line);
  printUnchecked();
  const warningCount = pluralize(warnings.length, 'warning');
  if ('problems' in found || problems.length > 0) {
    cli.printStderr(`${pluralize(problems.length, 'problem')}${warnings.length === 0 ? '' : `, ${warningCount}`}.`);
  } else {
    const though = warnings.length === 0 ? '' : `, with ${warningCount}`;
    const { name } = 'cluster' in found ? found.cluster : found.manifest.spec;
    cli.printSentence(`${path} is valid${though}: ${name === undefined ? 'a job without a name' : `job ${name}`}.`);
    if ('manifest' in found) noteMissingCommand(cli, found.manifest.spec, 'ID');
  }
  return code;
}

/** The schema of a manifest, or of one line that a command prints with --json. */
export function schemaFor(program: Program) {
  return async (cli: Cli, _flags: GlobalFlags, ...args: readonly string[]): Promise<number> => {
    const printed =
      args.length === 0 || args.join(' ') === 'manifest' ? manifestSchema() : await schemaOf(program, args.join(' '));
    cli.print(JSON.stringify(printed, null, cli.json ? undefined : 2));
    return exitCode.ok;
  };
}

/** The first name of a command that exists, also for another name and for a verb of a family. */
async function nameOf(program: Program, typed: string): Promise<string | undefined> {
  const [family, ...args] = typed.split(' ');
  if (family === 'tpu') {
    const { table } = await import('../tpu/table.ts');
    const row = table.find(({ names }) => names.includes(args.join(' ')));
    return row === undefined ? undefined : `tpu ${row.names[0]}`;
  }
  try {
    const found = findCommand(program, typed.split(' '));
    if (!('command' in found)) return undefined;
    const { command } = found;
    return found.args.length === 0 || command.hidden === true ? command.names[0] : undefined;
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return undefined;
  }
}

async function schemaOf(program: Program, typed: string): Promise<object> {
  const { default: all } = await import('../outputs.schema.json', { with: { type: 'json' } });
  const outputs: Readonly<Record<string, object>> = all.outputs;
  const known = outputs[typed] === undefined ? await nameOf(program, typed) : typed;
  const command = known ?? typed;
  const found = outputs[command] ?? (known === undefined ? undefined : outputs['message']);
  if (found === undefined) {
    throw usageError(formatUnknownCommand(typed, Object.keys(outputs)), ['Errors: jobman schema error']);
  }
  const definitions: Readonly<Record<string, object>> = all.$defs;
  const needed = new Set<string>();
  const add = (part: object): void => {
    for (const [, name = ''] of JSON.stringify(part).matchAll(/"#\/\$defs\/(\w+)"/g)) {
      if (needed.has(name)) continue;
      needed.add(name);
      add(definitions[name] ?? {});
    }
  };
  add(found);
  const used = Object.fromEntries(Object.entries(definitions).filter(([name]) => needed.has(name)));
  return { $schema: all.$schema, title: `jobman ${command} --json`, ...found, $defs: used };
}
