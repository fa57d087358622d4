/** The command that gives a drained node work again, as every place that finds one names it. */
export function activateHint(name: string): string {
  return `remuster node activate ${name}`;
}
