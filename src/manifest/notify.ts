import { didYouMean } from '../catalogue/did-you-mean.ts';
import { mailAddressOf, type NotifySpec } from '../core/model/notify.ts';
import { omitUndefined } from '../core/model/omit-undefined.ts';
import type { ManifestContext } from './files.ts';
import type { Sections } from './sections.ts';

/** The section `notify`; undefined without one. Reports recipients that the settings do not have. */
export function readNotify(
  sections: Sections,
  { channels }: Pick<ManifestContext, 'channels'>,
): NotifySpec | undefined {
  const section = sections.read('notify');
  if (section === undefined) return undefined;
  const { on, to } = section;
  for (const [index, recipient] of (to ?? []).entries()) {
    if (channels === undefined) break;
    const name = mailAddressOf(recipient) === undefined ? recipient : 'mail';
    if (channels.includes(name)) continue;
    const known = channels.filter((one) => one !== 'mail');
    const at = ['notify', 'to', index];
    if (name === 'mail') sections.missingHere(at, 'needs a mail server; set notify.smtp (docs/notifications.md)');
    else {
      const list = known.length === 0 ? 'none yet' : known.join(', ');
      sections.missingHere(
        at,
        `there is no channel "${name}" in the settings (notify.channels: ${list})${hint(name, known)}`,
      );
    }
  }
  return omitUndefined({
    on: on === undefined ? undefined : [...new Set(on)],
    to: to === undefined ? undefined : [...new Set(to)],
  });
}

function hint(name: string, known: readonly string[]): string {
  const near = didYouMean(name, known);
  return near === undefined ? '' : `; did you mean ${near}?`;
}
