// emulator preempt, stockout, …: what may happen in the built-in cloud. Its verbs and their options are its own; here
// they are only taken apart.

import type { Client } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Cli } from '../context.ts';

export async function act(cli: Cli, _flags: object, ...args: readonly string[]): Promise<number> {
  const json = cli.json || args.includes('--json');
  const { verb, target, options } = takeApart(args.filter((word) => word !== '--json'));
  const emulator = await cli.services.emulator();
  const said = await actOn(cli, target, (meant) => emulator.act(verb, meant, options));
  if (json) cli.print(JSON.stringify({ verb, target: target ?? null, message: said }));
  else cli.tell(said);
  return exitCode.ok;
}

/**
 * Acts on the target as it was said. The cloud knows ids of jobs and names of nodes; what it does not know may be the name
 * of a job (`iris`, or `iris/1` for its worker 1). Throws what the cloud said when it is not.
 */
async function actOn(
  cli: Cli,
  target: string | undefined,
  act: (target: string | undefined) => Promise<string>,
): Promise<string> {
  try {
    return await act(target);
  } catch (error) {
    if (target === undefined || !isNotFound(error)) throw error;
    const [, name = target, worker = ''] = /^(.+?)(\/\d+)?$/.exec(target) ?? [];
    const id = await idOf(await cli.services.client(), name);
    if (id === undefined) throw error;
    return act(`${id}${worker}`);
  }
}

async function idOf(client: Client, name: string): Promise<string | undefined> {
  try {
    return (await client.show(name)).id;
  } catch (error) {
    // A name that several jobs have is worth saying; one that none has was a node's or a zone's, mistyped.
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

function isNotFound(error: unknown): boolean {
  return error instanceof JobmanError && error.code === exitCode.notFound;
}

/** `preempt 1 --delay=5s --hard`: the verb, its target, and options; one without a value is `true`. Throws a usage error. */
function takeApart(words: readonly string[]): {
  readonly verb: string;
  readonly target: string | undefined;
  readonly options: Readonly<Record<string, string>>;
} {
  const plain: string[] = [];
  const options: Record<string, string> = {};
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? '';
    const [, name, given] = /^--([a-z][\w-]*)(?:=(.*))?$/i.exec(word) ?? [];
    if (name === undefined) {
      plain.push(word);
      continue;
    }
    const next = words[at + 1];
    if (given === undefined && next !== undefined && !next.startsWith('--')) at += 1;
    options[name] = given ?? (next === undefined || next.startsWith('--') ? 'true' : next);
  }
  const [verb = '', target, tooMany] = plain;
  if (tooMany !== undefined)
    throw new JobmanError(`\`${tooMany}\` is one word too many for emulator ${verb}.`, exitCode.usage);
  return { verb, target, options };
}
