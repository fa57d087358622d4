/**
 * Pools that are made again and again under one name, told apart: the params of each carry the number of its round, and
 * its label is its name with that number. The label of any other pool is its name. What is told about pools names labels;
 * nodes, registry and callers know the name.
 */
export function lifecycleParams(round: number): { readonly round: number } {
  return { round };
}

export function poolLabel(name: string, params: unknown): string {
  const round = (params as { readonly round?: number } | null)?.round;
  return round === undefined ? name : `${name}#${round}`;
}

export function poolNameOfLabel(label: string): string {
  return label.split('#', 1)[0] as string;
}
