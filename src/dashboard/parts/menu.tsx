import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';

interface MenuProps {
  readonly title: string;
  readonly isLeft?: boolean;
  readonly children: ComponentChildren;
}

/** Items below a button. Escape closes it, and so does the focus or a click elsewhere. */
export function Menu({ title, isLeft = false, children }: MenuProps) {
  const element = useRef<HTMLDetailsElement>(null);
  const close = (): void => {
    if (element.current !== null) element.current.open = false;
  };
  return (
    <details
      ref={element}
      class={`menu ${isLeft ? 'menu-left' : ''}`}
      onFocusOut={({ relatedTarget }) => {
        if (!(relatedTarget instanceof Node) || element.current?.contains(relatedTarget) !== true) close();
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || element.current?.open !== true) return;
        event.stopPropagation();
        element.current.querySelector('summary')?.focus();
        close();
      }}
    >
      <summary>{title}</summary>
      {/* The focus of a click between two items stays in the menu. */}
      <div class="menu-items" tabIndex={-1}>
        {children}
      </div>
    </details>
  );
}
