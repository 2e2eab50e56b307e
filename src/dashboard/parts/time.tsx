import { useComputed } from '@preact/signals';
import { formatAge, formatDuration, formatTime } from '../../app/format.ts';
import type { Instant } from '../../core/model/time.ts';
import { now } from '../clock.ts';

interface TimeProps {
  readonly at: Instant;
}

/** `9m`: the time since then, kept up to date. */
export function Age({ at }: TimeProps) {
  const text = useComputed(() => formatAge(now.value - at));
  return <Timestamp at={at}>{text}</Timestamp>;
}

/** `2h05m`: the same with two units. */
export function Since({ at }: TimeProps) {
  const text = useComputed(() => formatDuration(now.value - at));
  return <Timestamp at={at}>{text}</Timestamp>;
}

/** `20 Nov 22:31:07 UTC`. */
export function Time({ at }: TimeProps) {
  return <Timestamp at={at}>{formatTime(at, now.peek())}</Timestamp>;
}

function Timestamp({ at, children }: TimeProps & { readonly children: unknown }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={formatTime(at, now.peek())}>
      {children as string}
    </time>
  );
}
