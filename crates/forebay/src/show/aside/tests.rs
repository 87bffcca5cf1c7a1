use super::*;

#[test]
fn what_nobody_reads_is_kept_up_to_a_bound_and_the_rest_is_counted() {
    let mut waiting = Waiting::default();
    (0..MOST + 3).for_each(|n| waiting.put(n.to_string()));
    assert_eq!((waiting.sentences.len(), waiting.left_out), (MOST, 3));
    assert_eq!(waiting.take().as_deref(), Some("0"));
    assert!(!waiting.is_settled());
    let said: Vec<String> = std::iter::from_fn(|| waiting.take()).collect();
    assert_eq!((said.len(), said[0].as_str()), (MOST, "1"));
    assert!(said[MOST - 1].contains("3 more were not kept"), "{}", said[MOST - 1]);
}
