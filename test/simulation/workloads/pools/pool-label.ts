/**
 * Labels of pools that are recreated under one name: the name plus the number of the lifecycle. Nodes and the registry
 * know only the name.
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
