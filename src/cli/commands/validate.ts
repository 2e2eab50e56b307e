// validate, schema: everything that is wrong with a manifest, and what a manifest may hold.

import { exitCode } from '../../app/errors.ts';
import { countText } from '../../app/figures.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { checkManifest, clusterProblems, sayWarnings } from '../manifest-file.ts';
import { manifestSchema } from '../../manifest/keys.ts';
import { formatProblems } from '../../schema/problems.ts';

interface ValidateFlags {
  readonly set?: readonly string[] | undefined;
  readonly offline?: boolean | undefined;
}

/** Reads the manifest as `create` does, and changes nothing. Exits 2 for whatever `create` refuses, and 0 with any number of warnings. */
export async function validate(cli: Cli, flags: ValidateFlags & GlobalFlags, path: string): Promise<number> {
  const found = await checkManifest(cli, path, flags.set ?? [], { offline: flags.offline === true });
  const { warnings } = found;
  const problems = 'problems' in found ? found.problems : 'cluster' in found ? await clusterProblems(cli, found) : [];
  const code = problems.length > 0 ? exitCode.usage : exitCode.ok;
  // A check that could not be made is no finding, but a reader of JSON must know of it.
  const sayUnchecked = (): void => {
    if (found.unchecked !== null) cli.note(`note: ${found.unchecked}.`);
  };
  if (cli.json) {
    // The findings are the result here, one object a line; a manifest without any prints nothing.
    cli.printObjects([
      ...problems.map((problem) => ({ file: path, severity: 'problem', ...problem })),
      ...warnings.map((warning) => ({ file: path, severity: 'warning', ...warning })),
    ]);
    sayUnchecked();
    return code;
  }
  sayWarnings(cli, path, warnings);
  for (const line of formatProblems(path, problems)) cli.complain(line);
  sayUnchecked();
  const doubts = countText(warnings.length, 'warning');
  if ('problems' in found || problems.length > 0) {
    cli.complain(`${countText(problems.length, 'problem')}${warnings.length === 0 ? '' : `, ${doubts}`}.`);
  } else {
    const though = warnings.length === 0 ? '' : `, with ${doubts}`;
    const { name } = 'cluster' in found ? found.cluster : found.manifest.spec;
    cli.tell(`${path} is fine${though}: ${name === undefined ? 'a job without a name' : `job ${name}`}.`);
  }
  return code;
}

export async function schema(cli: Cli): Promise<number> {
  cli.print(JSON.stringify(manifestSchema(), null, 2));
  return exitCode.ok;
}
