// completion: the script that a shell reads once.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { completionScript } from '../../completion/scripts.ts';
import { shells } from '../../completion/shells.ts';
import type { TpuCli } from '../tpu-cli.ts';
import { textOf, type Words } from '../words.ts';

export async function completion(desk: TpuCli, words: Words): Promise<number> {
  const word = textOf(words, 'shell');
  const shell = shells.find((one) => one === word);
  if (shell === undefined) {
    throw new JobmanError(`\`${word}\` is no shell that is known here: ${shells.join(', ')}.`, exitCode.usage);
  }
  desk.io.stdout.write(completionScript(shell, 'tpu'));
  return exitCode.ok;
}
