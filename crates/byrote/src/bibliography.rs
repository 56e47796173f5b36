//! The papers that byrote builds on: one list for the table of bounds, the references of report pages, and
//! `CITATION.cff`.
//!
//! A paper has one key, such as `madden2024`, which names its files, its rows and its results everywhere.
//!
//! ```
//! use byrote::bibliography::paper;
//!
//! let madden = paper("madden2024").unwrap();
//! assert_eq!(madden.address, Some("https://arxiv.org/abs/2405.13718"));
//! assert!(madden.citation().starts_with("L. Madden, C. Fox, C. Thrampoulidis. Next-token prediction capacity"));
//! ```

use serde::Serialize;

/// A publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Paper {
    /// The key used for it everywhere.
    #[serde(rename = "paper")]
    pub key: &'static str,
    /// Its authors, initials first.
    pub authors: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Where it appeared, with the arXiv version that byrote's statements were checked against, where known.
    pub source: &'static str,
    /// Where it can be read.
    pub address: Option<&'static str>,
}

impl Paper {
    /// Authors and title, as a list of references prints them.
    pub fn citation(&self) -> String {
        let stop = if self.title.ends_with(['?', '!']) { "" } else { "." };
        format!("{}. {}{stop}", self.authors, self.title)
    }
}

/// The paper with this key.
pub fn paper(key: &str) -> Option<&'static Paper> {
    PAPERS.iter().copied().find(|paper| paper.key == key)
}

macro_rules! papers {
    ($($name:ident = { $key:literal, $authors:literal, $title:literal, $source:literal, $address:expr })*) => {
        $(
            #[doc = concat!($authors, ", \"", $title, "\".")]
            pub static $name: Paper =
                Paper { key: $key, authors: $authors, title: $title, source: $source, address: $address };
        )*

        /// Every paper, by key.
        pub static PAPERS: &[&Paper] = &[$(&$name),*];
    };
}

papers! {
    ALLENZHU2024 = {
        "allenzhu2024",
        "Z. Allen-Zhu, Y. Li",
        "Physics of Language Models: Part 3.3, Knowledge Capacity Scaling Laws",
        "arXiv:2404.05405 (version not marked)",
        Some("https://arxiv.org/abs/2404.05405")
    }
    BAUM1988 = {
        "baum1988",
        "E. B. Baum",
        "On the capabilities of multilayer perceptrons",
        "Journal of Complexity 4, 1988",
        None
    }
    BIDERMAN2023 = {
        "biderman2023",
        "S. Biderman, U. S. Prashanth, L. Sutawika, H. Schoelkopf, Q. Anthony, S. Purohit, E. Raff",
        "Emergent and Predictable Memorization in Large Language Models",
        "arXiv:2304.11158 (version not marked), NeurIPS 2023",
        Some("https://arxiv.org/abs/2304.11158")
    }
    BUBECK2020 = {
        "bubeck2020",
        "S. Bubeck, R. Eldan, Y. T. Lee, D. Mikulincer",
        "Network size and size of the weights in memorization with two-layers neural networks",
        "arXiv:2006.02855 (version not marked), NeurIPS 2020",
        Some("https://arxiv.org/abs/2006.02855")
    }
    CABANNES2024 = {
        "cabannes2024",
        "V. Cabannes, E. Dohmatob, A. Bietti",
        "Scaling Laws for Associative Memories",
        "arXiv:2310.02984 (version not marked), ICLR 2024",
        Some("https://arxiv.org/abs/2310.02984")
    }
    CARLINI2019 = {
        "carlini2019",
        "N. Carlini, C. Liu, \u{da}. Erlingsson, J. Kos, D. Song",
        "The Secret Sharer: Evaluating and Testing Unintended Memorization in Neural Networks",
        "arXiv:1802.08232 (version not marked), USENIX Security 2019",
        Some("https://arxiv.org/abs/1802.08232")
    }
    CARLINI2021 = {
        "carlini2021",
        "N. Carlini, F. Tram\u{e8}r, E. Wallace, M. Jagielski, and others",
        "Extracting Training Data from Large Language Models",
        "arXiv:2012.07805 (version not marked), USENIX Security 2021",
        Some("https://arxiv.org/abs/2012.07805")
    }
    CARLINI2023 = {
        "carlini2023",
        "N. Carlini, D. Ippolito, M. Jagielski, K. Lee, F. Tram\u{e8}r, C. Zhang",
        "Quantifying Memorization Across Neural Language Models",
        "arXiv:2202.07646 (version not marked), ICLR 2023",
        Some("https://arxiv.org/abs/2202.07646")
    }
    COOPER2025 = {
        "cooper2025",
        "A. F. Cooper and others",
        "Extracting memorized pieces of (copyrighted) books from open-weight language models",
        "arXiv:2505.12546 (version not marked)",
        Some("https://arxiv.org/abs/2505.12546")
    }
    DANA2024 = {
        "dana2024",
        "L. Dana, M. S. Pydi, Y. Chevaleyre",
        "Memorization in Attention-only Transformers",
        "arXiv:2411.10115 (version not marked), AISTATS 2025",
        Some("https://arxiv.org/abs/2411.10115")
    }
    HANS2024 = {
        "hans2024",
        "A. Hans and others",
        "Be like a Goldfish, Don't Memorize! Mitigating Memorization in Generative LLMs",
        "arXiv:2406.10209 (version not marked), NeurIPS 2024",
        Some("https://arxiv.org/abs/2406.10209")
    }
    HAYES2024 = {
        "hayes2024",
        "J. Hayes, M. Swanberg, H. Chaudhari, I. Yona, I. Shumailov, M. Nasr, C. A. Choquette-Choo, K. Lee, A. F. Cooper",
        "Measuring memorization in language models via probabilistic extraction",
        "arXiv:2410.19482 (version not marked)",
        Some("https://arxiv.org/abs/2410.19482")
    }
    INFORMATION = {
        "information",
        "C. E. Shannon",
        "A Mathematical Theory of Communication",
        "Bell System Technical Journal 27, 1948",
        None
    }
    KAJITSUKA2023 = {
        "kajitsuka2023",
        "T. Kajitsuka, I. Sato",
        "Are Transformers with One Layer Self-Attention Using Low-Rank Weight Matrices Universal Approximators?",
        "arXiv:2307.14023 (version not marked), ICLR 2024",
        Some("https://arxiv.org/abs/2307.14023")
    }
    KAJITSUKA2024 = {
        "kajitsuka2024",
        "T. Kajitsuka, I. Sato",
        "On the Optimal Memorization Capacity of Transformers",
        "arXiv:2409.17677 (version not marked), ICLR 2025",
        Some("https://arxiv.org/abs/2409.17677")
    }
    KIM2023 = {
        "kim2023",
        "J. Kim, M. Kim, B. Mozafari",
        "Provable Memorization Capacity of Transformers",
        "ICLR 2023",
        None
    }
    MADDEN2023 = {
        "madden2023",
        "L. Madden, C. Thrampoulidis",
        "Memory capacity of two layer neural networks with smooth activations",
        "arXiv:2308.02001v3",
        Some("https://arxiv.org/abs/2308.02001")
    }
    MADDEN2024 = {
        "madden2024",
        "L. Madden, C. Fox, C. Thrampoulidis",
        "Next-token prediction capacity: general upper bounds and a lower bound for transformers",
        "arXiv:2405.13718v1",
        Some("https://arxiv.org/abs/2405.13718")
    }
    MAHDAVI2024 = {
        "mahdavi2024",
        "S. Mahdavi, R. Liao, C. Thrampoulidis",
        "Memorization Capacity of Multi-Head Attention in Transformers",
        "arXiv:2306.02010v3, ICLR 2024",
        Some("https://arxiv.org/abs/2306.02010")
    }
    MORRIS2025 = {
        "morris2025",
        "J. X. Morris and others",
        "How much do language models memorize?",
        "arXiv:2505.24832 (version not marked)",
        Some("https://arxiv.org/abs/2505.24832")
    }
    PARK2021 = {
        "park2021",
        "S. Park, J. Lee, C. Yun, J. Shin",
        "Provable Memorization via Deep Neural Networks using Sub-linear Parameters",
        "arXiv:2010.13363v2, COLT 2021",
        Some("https://arxiv.org/abs/2010.13363")
    }
    SANDER2024 = {
        "sander2024",
        "M. E. Sander, G. Peyr\u{e9}",
        "Towards Understanding the Universality of Transformers for Next-Token Prediction",
        "arXiv:2410.03011 (version not marked), ICLR 2025",
        Some("https://arxiv.org/abs/2410.03011")
    }
    SHI2024 = {
        "shi2024",
        "W. Shi and others",
        "Detecting Pretraining Data from Large Language Models",
        "arXiv:2310.16789 (version not marked), ICLR 2024",
        Some("https://arxiv.org/abs/2310.16789")
    }
    SONTAG1997 = {
        "sontag1997",
        "E. D. Sontag",
        "Shattering All Sets of k Points in \u{201c}General Position\u{201d} Requires (k \u{2212} 1)/2 Parameters",
        "Neural Computation 9, 1997",
        None
    }
    TIRUMALA2022 = {
        "tirumala2022",
        "K. Tirumala, A. H. Markosyan, L. Zettlemoyer, A. Aghajanyan",
        "Memorization Without Overfitting: Analyzing the Training Dynamics of Large Language Models",
        "arXiv:2205.10770 (version not marked), NeurIPS 2022",
        Some("https://arxiv.org/abs/2205.10770")
    }
    VARDI2022 = {
        "vardi2022",
        "G. Vardi, G. Yehudai, O. Shamir",
        "On the Optimal Memorization Power of ReLU Neural Networks",
        "arXiv:2110.03187v1, ICLR 2022",
        Some("https://arxiv.org/abs/2110.03187")
    }
    VERSHYNIN2020 = {
        "vershynin2020",
        "R. Vershynin",
        "Memory capacity of neural networks with threshold and ReLU activations",
        "arXiv:2001.06938v2",
        Some("https://arxiv.org/abs/2001.06938")
    }
    YANG2018 = {
        "yang2018",
        "Z. Yang, Z. Dai, R. Salakhutdinov, W. W. Cohen",
        "Breaking the Softmax Bottleneck: A High-Rank RNN Language Model",
        "arXiv:1711.03953 (version not marked), ICLR 2018",
        Some("https://arxiv.org/abs/1711.03953")
    }
    YUN2019 = {
        "yun2019",
        "C. Yun, S. Sra, A. Jadbabaie",
        "Small ReLU networks are powerful memorizers: a tight analysis of memorization capacity",
        "arXiv:1810.07770v3, NeurIPS 2019",
        Some("https://arxiv.org/abs/1810.07770")
    }
    YUN2020 = {
        "yun2020",
        "C. Yun, S. Bhojanapalli, A. S. Rawat, S. J. Reddi, S. Kumar",
        "Are Transformers universal approximators of sequence-to-sequence functions?",
        "arXiv:1912.10077v2, ICLR 2020",
        Some("https://arxiv.org/abs/1912.10077")
    }
    YUN2020_SPARSE = {
        "yun2020-sparse",
        "C. Yun, Y.-W. Chang, S. Bhojanapalli, A. S. Rawat, S. J. Reddi, S. Kumar",
        "O(n) Connections are Expressive Enough: Universal Approximability of Sparse Transformers",
        "arXiv:2006.04862v2, NeurIPS 2020",
        Some("https://arxiv.org/abs/2006.04862")
    }
    ZHANG2025 = {
        "zhang2025",
        "J. Zhang and others",
        "Min-K%++: Improved Baseline for Detecting Pre-Training Data from Large Language Models",
        "arXiv:2404.02936 (version not marked), ICLR 2025",
        Some("https://arxiv.org/abs/2404.02936")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_are_listed_once_and_by_key() {
        let keys: Vec<_> = PAPERS.iter().map(|paper| paper.key).collect();
        assert!(keys.is_sorted() && keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
        assert!(PAPERS.iter().all(|p| paper(p.key) == Some(*p)));
        assert_eq!(paper("nobody1900"), None);
    }

    #[test]
    fn an_arxiv_number_and_its_address_agree() {
        for paper in PAPERS {
            let number = paper.address.and_then(|address| address.strip_prefix("https://arxiv.org/abs/"));
            assert_eq!(paper.source.contains("arXiv:"), number.is_some(), "{}", paper.key);
            assert!(number.is_none_or(|n| paper.source.starts_with(&format!("arXiv:{n}"))), "{}", paper.key);
        }
    }

    #[test]
    fn a_question_is_its_own_full_stop() {
        assert!(MORRIS2025.citation().ends_with("memorize?"));
        assert!(DANA2024.citation().ends_with("Transformers."));
    }

    #[test]
    fn the_citation_file_agrees_with_this_list() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../CITATION.cff");
        let text = std::fs::read_to_string(path).unwrap();
        let entries: Vec<_> = text.split("\n  - type: ").skip(1).filter(|e| e.contains("notes: ")).collect();
        assert!(entries.len() >= 4, "{}", entries.len());
        for entry in entries {
            let field = |name: &str| {
                let line = entry.lines().find_map(|line| line.trim_start().strip_prefix(name));
                line.unwrap_or_else(|| panic!("{name} in {entry}")).trim().trim_matches('"')
            };
            let paper = paper(field("notes:")).unwrap_or_else(|| panic!("{entry}"));
            assert_eq!(field("title:"), paper.title);
            assert_eq!(Some(field("url:")), paper.address);
        }
    }
}
