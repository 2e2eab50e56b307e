import { eventOfOtherName, notifyEventNames, readRecipient } from '../../core/model/notify.ts';
import { key, refined, type Key } from '../../schema/kinds.ts';
import { line, listOf, oneOf, quoteValue, section } from '../kinds.ts';

const recipient = refined(line({ description: 'recipient' }), (written, fail) => {
  const read = readRecipient(written);
  return 'recipient' in read ? read.recipient : fail(`${quoteValue(written)} ${read.problem}`, read.suggestion);
});

export const notify = {
  description: 'Messages about events of this job; see docs/notifications.md.',
  defaultText: 'the choice of the settings',
  example: '{on: [failed, succeeded], to: [mail:alice@example.com]}',
  kind: section({
    on: key(
      listOf(oneOf(notifyEventNames, eventOfOtherName), 'list of events'),
      'The events to report; an empty list reports nothing.',
      { defaultText: '`notify.on` of the settings', example: '[failed, preempted, succeeded]' },
    ),
    to: key(
      listOf(recipient, 'list of recipients'),
      'The recipients: `mail:ADDRESS`, or the name of a channel in the settings.',
      { defaultText: '`notify.to` of the settings', example: '[mail:alice@example.com, slack]' },
    ),
  }),
} satisfies Key<unknown>;
