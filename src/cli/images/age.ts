// The age of a cached answer of a registry.

import { ageText } from '../../app/figures.ts';
import type { Dated } from '../../app/images.ts';
import { minute, second } from '../../core/time.ts';
import type { Cli } from '../context.ts';

/** A remark on standard error; none for what was said just now. */
export function noteAge(cli: Cli, { at, because }: Dated<unknown>): void {
  const age = cli.io.now() - at;
  if (because !== null) cli.note(`This is a copy that is ${ageText(age)} old. ${because}`);
  else if (age >= second) cli.note(`As of ${ageText(age)} ago${age < minute ? '' : '; --refresh asks again'}.`);
}
