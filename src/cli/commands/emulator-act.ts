// emulator preempt, stockout, …: what may happen in the built-in cloud. Its verbs and their options are its own; here
// they are only taken apart.

import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Cli } from '../context.ts';

export async function act(cli: Cli, _flags: object, ...args: readonly string[]): Promise<number> {
  const json = cli.json || args.includes('--json');
  const { verb, target, options } = takeApart(args.filter((word) => word !== '--json'));
  const emulator = await cli.services.emulator();
  const said = await emulator.act(verb, target, options);
  cli.print(json ? JSON.stringify({ verb, target: target ?? null, message: said }) : said);
  return exitCode.ok;
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
