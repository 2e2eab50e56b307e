import { exitCode } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { checkManifest, clusterProblems, printWarnings } from '../manifest-file.ts';
import { manifestSchema } from '../../manifest/keys.ts';
import { formatProblems } from '../../schema/problems.ts';

interface ValidateFlags {
  readonly set?: readonly string[] | undefined;
  readonly offline?: boolean | undefined;
}

/** Changes nothing. Exits 2 for every manifest that `create` refuses, 0 with warnings only. */
export async function validate(cli: Cli, flags: ValidateFlags & GlobalFlags, path: string): Promise<number> {
  const found = await checkManifest(cli, path, flags.set ?? [], { offline: flags.offline === true });
  const { warnings } = found;
  const problems = 'problems' in found ? found.problems : 'cluster' in found ? await clusterProblems(cli, found) : [];
  const code = problems.length > 0 ? exitCode.usage : exitCode.ok;
  // A check that could not be made is no finding, but a reader of the JSON must know of it.
  const printUnchecked = (): void => {
    if (found.unchecked !== null) cli.note(`note: ${found.unchecked}.`);
  };
  if (cli.json) {
    // One object per line; a manifest without findings prints nothing.
    cli.printObjects([
      ...problems.map((problem) => ({ file: path, severity: 'problem', ...problem })),
      ...warnings.map((warning) => ({ file: path, severity: 'warning', ...warning })),
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
    cli.printSentence(`${path} is fine${though}: ${name === undefined ? 'a job without a name' : `job ${name}`}.`);
  }
  return code;
}

export async function schema(cli: Cli): Promise<number> {
  cli.print(JSON.stringify(manifestSchema(), null, 2));
  return exitCode.ok;
}
